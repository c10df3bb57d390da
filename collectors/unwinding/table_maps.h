// Where tables are put so that the sampling programs find them: the kernel's maps, or a test's
// memory.

#pragma once

#include <cstdint>
#include <memory>
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

  // The words of a new arena, which is there for the programs too. They stay valid with *this.
  virtual Result<std::span<std::uint32_t>> make_arena(std::uint32_t index) = 0;
  virtual std::span<profd_rule> rules() = 0;
  virtual Result<void> put(const profd_table_key& key, const profd_table& table) = 0;
  virtual void erase(const profd_table_key& key) = 0;
  // When the programs last went by the table, as far as they have told; 0: never.
  virtual std::uint64_t used_ns(const profd_table_key& key) = 0;
  // Makes the programs forget what they remember of tables, from their next run on.
  virtual void raise_generation() = 0;
  // Returns when what runs now is over.
  virtual void wait_for_running_programs() = 0;
};

// `programs` must outlive the maps.
[[nodiscard]] Result<std::unique_ptr<TableMaps>> open_table_maps(const Programs& programs);

}  // namespace profd
