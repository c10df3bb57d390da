// The maps in which the sampling programs find tables. An interface, so that tests can use memory.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "bpf/profd_abi.h"
#include "bpf/unwind_rows.h"
#include "collectors/bpf/programs.h"
#include "formats/base/result.h"

namespace profd {

class TableMaps {
 public:
  TableMaps() = default;
  TableMaps(const TableMaps&) = delete;
  TableMaps& operator=(const TableMaps&) = delete;
  virtual ~TableMaps() = default;

  // The words of a new arena, which the programs can read too. Valid until drop_arena(). The first
  // call begins to make it, which takes 10 to 30 ms: none until then, and an error once if there is
  // no memory. To be called with the same index until there is a result.
  virtual Result<std::optional<std::span<std::uint32_t>>> make_arena(std::uint32_t index) = 0;
  // Gives back the memory of an arena that no entry refers to and no program is reading. False, and
  // nothing is done, while another one is being made or given back.
  virtual bool drop_arena(std::uint32_t index) = 0;
  virtual std::span<profd_rule> rules() = 0;
  virtual Result<void> put(const profd_table_key& key, const profd_table& table) = 0;
  virtual void erase(const profd_table_key& key) = 0;
  // The table's profd_table::used_ns; 0: never used.
  virtual std::uint64_t used_ns(const profd_table_key& key) = 0;
  // Makes the programs drop what they cached of tables, from their next run on.
  virtual void raise_generation() = 0;
  // The number of a grace period: when it is over, the programs that are running now have ended.
  virtual std::uint64_t begin_grace_period() = 0;
  [[nodiscard]] virtual bool is_over(std::uint64_t grace_period) const = 0;
};

// `programs` must outlive the maps.
[[nodiscard]] Result<std::unique_ptr<TableMaps>> open_table_maps(const Programs& programs);

}  // namespace profd
