// Any bytes as a file with DWARF: one answer for each address, within the caps.
//
// libdw is run here without its sandbox, so a fault of libdw itself ends the fuzzer.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "collectors/symbolizer/dwarf_frames.h"
#include "collectors/symbolizer/messages.h"
#include "formats/base/unique_fd.h"
#include "tests/fuzz/require.h"

namespace {

constexpr std::array<std::uint64_t, 6> kAddresses{0x200, 0x220, 0x250, 0x280, 0x2c0, 0x2f0};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A file of its own for each input: libelf maps it.
  const profd::UniqueFd file(::memfd_create("dwarf_frames_fuzz", MFD_CLOEXEC));
  require(::pwrite(file.get(), data, size, 0) == static_cast<ssize_t>(size), "pwrite");
  (void)profd::find_alt_link({.file = file.get()});
  const auto answers = profd::find_dwarf_frames(
      {.file = file.get()}, kAddresses,
      {.cpu_time = std::chrono::milliseconds(200), .entries = 20'000, .answer_bytes = 20'000});
  require(answers.size() == kAddresses.size(), "one answer for each address");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    require(answers[i].names.address == kAddresses[i], "in the order of the addresses");
    require(is_valid(answers[i]) && is_valid(answers[i].names), "as the daemon accepts it");
    for (const profd::CodeFrame& frame : answers[i].names.frames) {
      require(is_valid(frame), "frames that the daemon accepts");
    }
  }
  require(profd::sandbox::encode(answers).size() <= 20'000 + answers.size() * 64,
          "the answer within its limit");
  return 0;
}
