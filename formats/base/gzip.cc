#include "formats/base/gzip.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include <libdeflate.h>
#include <zlib.h>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::size_t kHeaderBytes = 10;  // without optional parts
constexpr std::size_t kFlagsPlace = 3;
constexpr unsigned kHasFields = 4;  // FEXTRA
constexpr std::size_t kIdBytes = 2;
constexpr std::size_t kSizeFieldBytes = 4;
constexpr std::size_t kSmallestRoom = 4096;
constexpr std::size_t kUsualRatio = 32;

struct FreeDeflate {
  void operator()(libdeflate_compressor* packer) const { ::libdeflate_free_compressor(packer); }
  void operator()(libdeflate_decompressor* unpacker) const {
    ::libdeflate_free_decompressor(unpacker);
  }
};

// As the file states it; but no more than a usual file of this size has.
std::size_t first_room(std::string_view file) {
  return std::clamp(stated_gzip_size(file), kSmallestRoom,
                    kSmallestRoom + kUsualRatio * file.size());
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

std::string add_gzip_field(std::string file, std::string_view id, std::string_view data) {
  const auto size_text = [](std::size_t size) {
    return std::string{static_cast<char>(size & 0xff), static_cast<char>(size >> 8U)};
  };
  std::string field = size_text(kIdBytes + 2 + data.size());
  field.append(id.substr(0, kIdBytes)).append(size_text(data.size())).append(data);
  file[kFlagsPlace] = static_cast<char>(static_cast<unsigned char>(file[kFlagsPlace]) | kHasFields);
  return file.insert(kHeaderBytes, field);
}

std::optional<std::string_view> find_gzip_field(std::string_view head, std::string_view id) {
  if (!is_gzip(head) || head.size() < kHeaderBytes) return std::nullopt;
  if ((static_cast<unsigned char>(head[kFlagsPlace]) & kHasFields) == 0) return std::nullopt;
  Cursor cursor(head.substr(kHeaderBytes));
  Cursor fields(cursor.read_bytes(cursor.read<std::uint16_t>()));
  while (fields.ok() && fields.remaining() != 0) {
    const std::string_view found = fields.read_bytes(kIdBytes);
    const std::string_view data = fields.read_bytes(fields.read<std::uint16_t>());
    if (fields.ok() && found == id) return data;
  }
  return std::nullopt;
}

std::size_t end_of_gzip_fields(std::string_view head) {
  if (!is_gzip(head) || head.size() < kHeaderBytes) return 0;
  if ((static_cast<unsigned char>(head[kFlagsPlace]) & kHasFields) == 0) return 0;
  Cursor cursor(head.substr(kHeaderBytes));
  const std::size_t bytes = cursor.read<std::uint16_t>();
  return cursor.ok() ? kHeaderBytes + cursor.offset() + bytes : 0;
}

bool is_gzip(std::string_view file) { return file.starts_with(kGzipMagic); }

std::size_t stated_gzip_size(std::string_view file) {
  if (file.size() < kSizeFieldBytes) return 0;
  return Cursor(file.substr(file.size() - kSizeFieldBytes)).read<std::uint32_t>();
}

Result<std::string> unpack_gzip(std::string_view file, std::size_t max_bytes) {
  if (!is_gzip(file)) return malformed("not a gzip file");
  return GzipReader(file, max_bytes).read();
}

// libdeflate does not say why a file is malformed, so zlib reads it once more.
bool is_cut_gzip(std::string_view file, std::size_t max_bytes) {
  constexpr int kGzipWindowBits = 15 + 16;
  constexpr std::size_t kCheckedBytes = std::size_t{64} << 10;
  if (!is_gzip(file) || file.size() > std::numeric_limits<uInt>::max()) return false;
  z_stream stream{};
  if (::inflateInit2(&stream, kGzipWindowBits) != Z_OK) return false;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, ::inflateEnd);
  // zlib only reads from next_in, but its type is not const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
  stream.avail_in = static_cast<uInt>(file.size());
  std::string block(kCheckedBytes, '\0');
  std::size_t unpacked = 0;
  int status = Z_OK;
  while (status == Z_OK && unpacked <= max_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    unpacked += block.size() - stream.avail_out;
    // The next member.
    if (status == Z_STREAM_END && stream.avail_in != 0) status = ::inflateReset(&stream);
  }
  // No progress was possible, and nothing is left to read.
  return status == Z_BUF_ERROR && stream.avail_in == 0;
}

}  // namespace profd
