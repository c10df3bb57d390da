// Writes jitdump records, for tests. formats/jit/jitdump_format.h has the grammar.
//
// Each function appends one record, as it stands in a file, to a string. Nothing is checked, so
// that tests can also write malformed records.

#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/jit/jitdump_format.h"

namespace profd {

struct JitDumpHeader {
  std::uint32_t version = 1;
  std::uint32_t total_bytes = jitdump::kHeaderBytes;  // zeros fill what is above 40
  std::uint32_t elf_machine = 62;                     // EM_X86_64
  std::uint32_t pad = 0;
  std::uint32_t pid = 0;
  std::uint64_t timestamp = 0;
  std::uint64_t flags = 0;
};

struct JitDumpLoad {
  std::uint64_t timestamp = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t address = 0;
  std::uint64_t code_bytes = 0;  // 0: as many as `code` has
  std::uint64_t code_index = 0;
  std::string_view name;
  std::string_view code;
};

struct JitDumpMove {
  std::uint64_t timestamp = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t old_address = 0;
  std::uint64_t new_address = 0;
  std::uint64_t code_bytes = 0;
  std::uint64_t code_index = 0;
};

struct JitDumpLine {
  std::uint64_t address = 0;
  std::uint32_t line = 0;
  std::uint32_t discriminator = 0;
  std::string_view file;
};

class JitDumpWriter {
 public:
  explicit JitDumpWriter(std::endian order = std::endian::little) : order_(order) {}

  void header(const JitDumpHeader& header);
  void load(const JitDumpLoad& load);
  void move(const JitDumpMove& move);
  void debug_info(std::uint64_t timestamp, std::uint64_t code_address,
                  std::span<const JitDumpLine> lines);
  // `data` is eh_frame and header in the order that the writer chose, padded to 8.
  void unwinding_info(std::uint64_t timestamp, std::string_view data, std::uint64_t hdr_bytes,
                      std::uint64_t mapped_bytes);
  void close(std::uint64_t timestamp);
  // Any id, with a frame around `body`.
  void record(std::uint32_t id, std::uint64_t timestamp, std::string_view body);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // What was written since the last call.
  [[nodiscard]] std::string take();

 private:
  void put32(std::uint32_t value);
  void put64(std::uint64_t value);
  void begin(jitdump::RecordId id, std::uint64_t total_bytes, std::uint64_t timestamp);

  std::endian order_;
  std::string bytes_;
};

}  // namespace profd
