#include "formats/symbols/mini_debug_info.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include <lzma.h>

#include "formats/base/whole_file.h"

namespace profd {
namespace {

// xz -9 takes 65 MiB, but the tools that write the section take the default, 9 MiB.
constexpr std::uint64_t kMaxDecoderBytes = std::uint64_t{16} << 20;
constexpr auto kMaxUnpackTime = std::chrono::milliseconds(500);
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

// Decodes the section from start to end. Call next() until it is false.
class Unpacker {
 public:
  Unpacker(const LimitedFile& file, const Elf64_Shdr& section)
      : file_(file), offset_(section.sh_offset), left_(section.sh_size) {
    is_open_ = ::lzma_stream_decoder(&stream_, kMaxDecoderBytes, 0) == LZMA_OK;
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  ~Unpacker() { ::lzma_end(&stream_); }

  // Fills the output with the next bytes: fewer than its size at the end. False at an error.
  bool next() {
    stream_.next_out = output_.data();
    stream_.avail_out = output_.size();
    while (is_open_ && !is_complete_ && stream_.avail_out > 0) {
      if (stream_.avail_in == 0 && left_ > 0 && !refill()) return false;
      const lzma_ret status = ::lzma_code(&stream_, left_ == 0 ? LZMA_FINISH : LZMA_RUN);
      is_complete_ = status == LZMA_STREAM_END;
      is_open_ = status == LZMA_OK || is_complete_;
    }
    return is_open_;
  }

  [[nodiscard]] bool is_complete() const { return is_complete_; }
  [[nodiscard]] std::string_view output() const {
    return {reinterpret_cast<const char*>(output_.data()), output_.size() - stream_.avail_out};
  }

 private:
  bool refill() {
    const std::size_t bytes = std::min<std::uint64_t>(input_.size(), left_);
    if (!file_.read(offset_, input_.data(), bytes)) return false;
    offset_ += bytes;
    left_ -= bytes;
    stream_.next_in = input_.data();
    stream_.avail_in = bytes;
    return true;
  }

  LimitedFile file_;
  std::uint64_t offset_;
  std::uint64_t left_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::vector<std::uint8_t> input_ = std::vector<std::uint8_t>(kBufferBytes);
  std::vector<std::uint8_t> output_ = std::vector<std::uint8_t>(kBufferBytes);
  bool is_open_ = false;
  bool is_complete_ = false;
};

}  // namespace

std::optional<UniqueFd> unpack_mini_debug_info(const LimitedFile& file) {
  const Elf64_Shdr* const section = file.elf().find_section(".gnu_debugdata");
  if (section == nullptr) return std::nullopt;
  UniqueFd unpacked(::memfd_create("mini_debug_info", MFD_CLOEXEC));
  if (!unpacked.valid()) return std::nullopt;
  const auto until = ReadLimits::Clock::now() + kMaxUnpackTime;
  Unpacker unpacker(file, *section);
  std::uint64_t bytes = 0;
  while (!unpacker.is_complete()) {
    if (!unpacker.next()) return std::nullopt;
    const std::string_view part = unpacker.output();
    bytes += part.size();
    const bool is_allowed = bytes <= kMaxMiniDebugInfoBytes && file.limits().take(part.size()) &&
                            ReadLimits::Clock::now() < until;
    if (!is_allowed || !write_all(unpacked.get(), part)) return std::nullopt;
  }
  return unpacked;
}

}  // namespace profd
