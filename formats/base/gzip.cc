#include "formats/base/gzip.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include <libdeflate.h>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::size_t kSizeFieldBytes = 4;
constexpr std::size_t kSmallestRoom = 4096;
constexpr std::size_t kUsualRatio = 32;

struct FreeDeflate {
  void operator()(libdeflate_compressor* packer) const { ::libdeflate_free_compressor(packer); }
  void operator()(libdeflate_decompressor* unpacker) const {
    ::libdeflate_free_decompressor(unpacker);
  }
};

// The size of the last member, modulo 2^32, as its trailer states it; but no more than a usual file
// of this size has, since the maker of the file chose what it states.
std::size_t first_room(std::string_view file) {
  if (file.size() < kSizeFieldBytes) return kSmallestRoom;
  const std::size_t stated =
      Cursor(file.substr(file.size() - kSizeFieldBytes)).read<std::uint32_t>();
  return std::clamp(stated, kSmallestRoom, kSmallestRoom + kUsualRatio * file.size());
}

// Unpacks member by member into one buffer, which grows by doubling up to `max_bytes`, so
// that the work is at most twice that of the result.
class GzipReader {
 public:
  GzipReader(std::string_view file, std::size_t max_bytes)
      : left_(file), max_bytes_(max_bytes), unpacker_(::libdeflate_alloc_decompressor()) {
    if (!unpacker_) throw std::bad_alloc();
    plain_.resize(std::min(first_room(file), std::max(kSmallestRoom, max_bytes)));
  }

  Result<std::string> read() && {
    do {
      const Result<void> member = read_member();
      if (!member) return member.error();
    } while (!left_.empty());
    plain_.resize(used_);
    return std::move(plain_);
  }

 private:
  Result<void> read_member() {
    for (;;) {
      std::size_t packed = 0;
      std::size_t unpacked = 0;
      switch (::libdeflate_gzip_decompress_ex(unpacker_.get(), left_.data(), left_.size(),
                                              plain_.data() + used_, plain_.size() - used_, &packed,
                                              &unpacked)) {
        case LIBDEFLATE_SUCCESS:
          used_ += unpacked;
          left_.remove_prefix(packed);
          if (used_ > max_bytes_) return too_large();
          return {};
        case LIBDEFLATE_INSUFFICIENT_SPACE:
          if (plain_.size() >= max_bytes_) return too_large();
          plain_.resize(std::min(2 * plain_.size(), max_bytes_));
          break;
        default:
          return malformed("the gzip data is malformed");
      }
    }
  }

  [[nodiscard]] Error too_large() const {
    return fail(ErrorCode::kTooLarge,
                "the unpacked data is larger than " + std::to_string(max_bytes_) + " bytes");
  }

  std::string_view left_;
  std::size_t max_bytes_;
  std::unique_ptr<libdeflate_decompressor, FreeDeflate> unpacker_;
  std::string plain_;
  std::size_t used_ = 0;
};

}  // namespace

std::string pack_gzip(std::string_view bytes, int level) {
  const std::unique_ptr<libdeflate_compressor, FreeDeflate> packer(
      ::libdeflate_alloc_compressor(level));
  if (!packer) throw std::bad_alloc();
  std::string file(::libdeflate_gzip_compress_bound(packer.get(), bytes.size()), '\0');
  file.resize(::libdeflate_gzip_compress(packer.get(), bytes.data(), bytes.size(), file.data(),
                                         file.size()));
  file.shrink_to_fit();
  return file;
}

bool is_gzip(std::string_view file) { return file.starts_with(kGzipMagic); }

Result<std::string> unpack_gzip(std::string_view file, std::size_t max_bytes) {
  if (!is_gzip(file)) return malformed("not a gzip file");
  return GzipReader(file, max_bytes).read();
}

}  // namespace profd
