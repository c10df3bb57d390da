#include "formats/base/inflate.h"

#include <algorithm>
#include <memory>

#include <zlib.h>
#include <zstd.h>

namespace profd {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

// 8 MiB: the largest window that the zstd tool uses without --ultra.
constexpr int kMaxZstdWindowLog = 23;

Error malformed() { return fail(ErrorCode::kMalformed, "a compressed section is malformed"); }
Error too_large() { return fail(ErrorCode::kTooLarge, "a compressed section is too large"); }

// Makes room for one more block. The string grows with the data, not by the size in a header.
bool grow(std::string& plain, std::size_t used, std::size_t max_bytes) {
  if (used < plain.size()) return true;
  if (used >= max_bytes) return false;
  plain.resize(std::min(max_bytes, used + std::max(kBlockBytes, used / 2)));
  return true;
}

}  // namespace

Result<std::string> inflate_zlib(std::string_view packed, std::size_t max_bytes) {
  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) return fail(ErrorCode::kInternal, "could not start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, ::inflateEnd);
  // zlib only reads from next_in, but its type is not const.
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
    if (status != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) return malformed();
  }
  plain.resize(used);
  return plain;
}

Result<std::string> inflate_zstd(std::string_view packed, std::size_t max_bytes) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                             ::ZSTD_freeDStream);
  if (!stream) return fail(ErrorCode::kInternal, "could not start zstd");
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
    if (::ZSTD_isError(status) != 0 || (in.pos == in.size && out.pos < out.size))
      return malformed();
  }
  plain.resize(used);
  return plain;
}

}  // namespace profd
