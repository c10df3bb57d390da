// ELF files with wrong values in any field.

#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace profd::test {

struct HostileSection {
  std::string name;
  std::string bytes;
  Elf64_Xword flags = SHF_ALLOC;
  Elf64_Xword entry_bytes = 0;
};

// A shared library of one executable segment that is the whole file, each byte loaded at its own
// offset. Sections follow each other from 0x1000 on, each aligned to 16; .code first.
class HostileElf {
 public:
  explicit HostileElf(std::string code = std::string(4096, '\x90'));

  // Returns the address of the section.
  std::uint64_t add(const HostileSection& section);
  [[nodiscard]] std::string bytes() const;

  static constexpr std::uint64_t kCode = 0x1000;

 private:
  std::string body_;
  std::string names_;
  std::vector<Elf64_Shdr> sections_;
};

// Appends little-endian numbers and bytes.
class CfiBytes {
 public:
  CfiBytes& u8(std::uint8_t value) { return put(&value, sizeof value); }
  CfiBytes& u32(std::uint32_t value) { return put(&value, sizeof value); }
  CfiBytes& u64(std::uint64_t value) { return put(&value, sizeof value); }
  CfiBytes& text(const std::string& value) { return put(value.data(), value.size()); }
  [[nodiscard]] std::string str() const { return bytes_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(bytes_.size()); }

  // A whole CIE of .debug_frame: CFA is rsp + 8, return address below; then `more`.
  CfiBytes& cie(const std::string& more = "", const std::string& augmentation = "");
  // A whole FDE of .debug_frame.
  CfiBytes& fde(std::uint32_t cie, std::uint64_t start, std::uint64_t count,
                const std::string& instructions = "");

 private:
  CfiBytes& put(const void* data, std::size_t count) {
    bytes_.append(static_cast<const char*>(data), count);
    return *this;
  }

  std::string bytes_;
};

}  // namespace profd::test
