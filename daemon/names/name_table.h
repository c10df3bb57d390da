// The names of code addresses of one file, each text once.
//
// Also holds why an address has no name, so that it is not looked up again. On a worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/profile/interned.h"
#include "formats/symbols/code_names.h"

namespace profd {

class NameTable {
 public:
  // Texts by index: name, mangled name, source file.
  struct Function {
    std::uint32_t name = 0;
    std::uint32_t system_name = 0;
    std::uint32_t file = 0;
    std::uint32_t start_line = 0;  // 0: unknown

    friend bool operator==(const Function&, const Function&) = default;
    friend void add_to(SeededHash& hash, const Function& function);
  };
  struct Line {
    std::uint32_t function = 0;
    std::uint32_t line = 0;  // 0: unknown

    friend bool operator==(const Line&, const Line&) = default;
    friend void add_to(SeededHash& hash, const Line& line);
  };
  struct Entry {
    std::uint32_t lines = 0;  // for lines(); an empty list without a name
    NameSource source = NameSource::kGap;
    bool is_folded = false;
    bool may_have_lines = false;  // DWARF was not asked for this address yet
    bool is_stale = false;        // a debug file that is there now may have more
    bool had_debug_file = false;  // when it was looked up
  };

  NameTable();

  // Replaces what is known of the address.
  void set(const AddressNames& names, bool may_have_lines, bool had_debug_file = false);

  // Marks the entries that a debug file may improve: those without a name or without a line.
  void mark_stale();

  // Null: the address was never looked up. Valid until the next set().
  [[nodiscard]] const Entry* find(std::uint64_t address) const;

  // The innermost inlined function first.
  [[nodiscard]] std::span<const Line> lines(const Entry& entry) const {
    return lines_[entry.lines];
  }
  [[nodiscard]] CodeFrame frame(const Line& line) const;
  [[nodiscard]] const Function& function(std::uint32_t index) const { return functions_[index]; }
  [[nodiscard]] std::uint32_t function_count() const { return functions_.size(); }
  [[nodiscard]] std::string_view text(std::uint32_t index) const { return texts_[index]; }

  // The memory in use.
  [[nodiscard]] std::size_t bytes() const;

 private:
  InternedTexts texts_;
  InternedValues<Function> functions_;
  InternedLists<Line> lines_;
  boost::unordered_flat_map<std::uint64_t, Entry> entries_;
};

}  // namespace profd
