// The reports of `profctl ship` as files of a runtime directory, for `profctl status`.
//
//     NAME.report  the report of an endpoint, replaced at each change and every few seconds
//     running      locked by the process that writes them
//
// A reader takes what is there for hostile: it reads files of root, of the user profd-ship and of
// its own user alone, within bounds, and waits for no file. profd-ship is the user of this name in
// /etc/passwd: getpwuid(3) may ask a network for any other owner.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/fwd.hpp>

#include "ctl/ship/endpoint_report.h"
#include "ctl/ship/ship_state.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

inline constexpr const char* kShipRuntimeDirectory = "/run/profd-ship";

// One process for a directory: a second one gets kBusy.
class ShipStatusWriter {
 public:
  // Is made where only it itself is absent. One that is a link, or that another user may write to,
  // is not used.
  explicit ShipStatusWriter(std::string directory) : directory_(std::move(directory)) {}

  // Replaces the files of these endpoints; the first time, removes those of others. After an
  // error, the next call begins anew.
  [[nodiscard]] Result<void> write(const std::vector<EndpointReport>& reports);

 private:
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> replace(const std::string& name, const std::string& text);
  void remove_reports() const;

  std::string directory_;
  UniqueFd fd_;
  UniqueFd lock_;
};

struct ShipStatus {
  enum class Life : std::uint8_t {
    kRuns,
    kHangs,  // its process is there, and does not write
    kEnded,
  };
  Life life = Life::kEnded;
  std::string written_at;                 // RFC 3339, UTC: the last file; "": there is none
  std::vector<EndpointReport> endpoints;  // by name
  std::vector<std::string> problems;      // files that are not used, and why
};

// Whether such a file, whose first user of a uid counts, has it for that of profd-ship.
[[nodiscard]] bool is_ship_user(std::uint32_t uid, const std::string& passwd = "/etc/passwd");

// None: no profctl ship has written to the directory.
[[nodiscard]] std::optional<ShipStatus> read_ship_status(const std::string& directory,
                                                         ShipTime now);

[[nodiscard]] boost::json::value json_of(const ShipStatus& status, ShipTime now);

}  // namespace profd
