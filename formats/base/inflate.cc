#include "formats/base/inflate.h"

#include <algorithm>
#include <memory>

#include <zlib.h>
#include <zstd.h>

namespace profd {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

// The largest window that zstd's own encoder uses without --ultra: 8 MiB.
constexpr int kMaxZstdWindowLog = 23;

Error damaged() { return fail(ErrorCode::kMalformed, "a damaged compressed section"); }
Error too_large() { return fail(ErrorCode::kTooLarge, "a compressed section that is too large"); }

// Makes room for one more block. The string grows as data comes, not as a header says.
bool grow(std::string& plain, std::size_t used, std::size_t max_bytes) {
  if (used < plain.size()) return true;
  if (used >= max_bytes) return false;
  plain.resize(std::min(max_bytes, used + std::max(kBlockBytes, used / 2)));
  return true;
}

}  // namespace

Result<std::string> inflate_zlib(std::string_view packed, std::size_t max_bytes) {
  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) return fail(ErrorCode::kInternal, "zlib could not start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, ::inflateEnd);
  // zlib's interface has no const; it only reads.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string plain;
  std::size_t used = 0;
  for (;;) {
    if (!grow(plain, used, max_bytes)) return too_large();
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + used);
    stream.avail_out = static_cast<uInt>(plain.size() - used);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    used = plain.size() - stream.avail_out;
    if (status == Z_STREAM_END) break;
    if (status != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) return damaged();
  }
  plain.resize(used);
  return plain;
}

Result<std::string> inflate_zstd(std::string_view packed, std::size_t max_bytes) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                             ::ZSTD_freeDStream);
  if (!stream) return fail(ErrorCode::kInternal, "zstd could not start");
  ::ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  std::string plain;
  std::size_t used = 0;
  for (;;) {
    if (!grow(plain, used, max_bytes)) return too_large();
    ZSTD_outBuffer out{plain.data(), plain.size(), used};
    const std::size_t status = ::ZSTD_decompressStream(stream.get(), &out, &in);
    used = out.pos;
    if (status == 0) break;
    if (::ZSTD_isError(status) != 0 || (in.pos == in.size && out.pos < out.size)) return damaged();
  }
  plain.resize(used);
  return plain;
}

}  // namespace profd
