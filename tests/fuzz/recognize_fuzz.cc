// A file that looks like CPython, with any bytes changed: an answer that the programs can use,
// twice the same. The first byte says which version, and whether it is a program or a library; then
// come changes of three bytes: an offset, and what stands there. An input that is an ELF file is
// taken as it is.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/unique_fd.h"
#include "formats/interpreters/runtime.h"
#include "formats/php/recognize.h"
#include "formats/python/layouts.h"
#include "formats/python/recognize.h"
#include "tests/formats/python/made_python.h"
#include "tests/fuzz/require.h"

namespace {

using namespace profd;

std::string file_of(std::string_view input) {
  if (input.starts_with("\x7f"
                        "ELF"))
    return std::string(input);
  const auto first = static_cast<std::uint8_t>(input.front());
  constexpr unsigned kVersions = python::kLastMinor - python::kFirstMinor + 1;
  test::MadePython made(python::kFirstMinor + first % kVersions);
  made.is_library = (first & 0x40) != 0;
  made.has_gnu_hash = (first & 0x80) == 0;
  std::string bytes = made.bytes();
  for (input.remove_prefix(1); input.size() >= 3; input.remove_prefix(3)) {
    const std::size_t at =
        static_cast<std::uint8_t>(input[0]) | std::size_t{static_cast<std::uint8_t>(input[1])} << 8;
    bytes[at % bytes.size()] = input[2];
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const UniqueFd fd(::memfd_create("recognize_fuzz", MFD_CLOEXEC));
  const std::string bytes = file_of({reinterpret_cast<const char*>(data), size});
  require(::ftruncate(fd.get(), 0) == 0, "ftruncate");
  require(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "pwrite");
  const auto file = CodeFile::open(fd.get());
  if (!file) return 0;
  const auto found = recognize_python(*file);
  if (!found) return 0;
  require(is_valid(*found), "what is found is valid");
  const auto again = recognize_python(*file);
  const auto php = recognize_php(*file);
  require(php && is_valid(*php), "what is found is valid");
  require(again && again->verdict == found->verdict && again->version == found->version,
          "the same again");
  return 0;
}
