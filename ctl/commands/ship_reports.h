// What `profctl status` shows of profctl ship.

#pragma once

#include <iosfwd>
#include <string>

#include "ctl/ship/ship_status.h"
#include "formats/api/status_info.h"

namespace profd {

void print_ship_status(const ShipStatus& ship, ShipTime now, std::ostream& out);

// The daemon's status with a member "ship".
[[nodiscard]] std::string status_json(const StatusInfo& status, const ShipStatus& ship,
                                      ShipTime now);

}  // namespace profd
