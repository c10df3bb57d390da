#include "formats/base/inflate.h"

#include <algorithm>
#include <memory>

#include <zlib.h>
#include <zstd.h>

#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

// 8 MiB: the largest window that the zstd tool uses without --ultra.
constexpr int kMaxZstdWindowLog = 23;

enum class Step { kMore, kEnd, kMalformed };

// Calls `inflate` with room for more bytes, of which it lowers the size to the bytes that it did
// not write, until the stream ends. The string grows with the data, not by the size in a header.
template <class Inflate>
Result<std::string> inflate_all(std::size_t max_bytes, const Inflate& inflate) {
  std::string plain;
  std::size_t used = 0;
  while (true) {
    if (used == plain.size()) {
      if (used >= max_bytes) return fail(ErrorCode::kTooLarge, "a compressed section is too large");
      plain.resize(std::min(max_bytes, used + std::max(kBlockBytes, used / 2)));
    }
    std::size_t room = plain.size() - used;
    const Step step = inflate(plain.data() + used, room);
    used = plain.size() - room;
    if (step == Step::kMalformed) return malformed("a compressed section is malformed");
    if (step == Step::kMore) continue;
    plain.resize(used);
    return plain;
  }
}

}  // namespace

Result<std::string> inflate_zlib(std::string_view packed, std::size_t max_bytes) {
  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) return fail(ErrorCode::kInternal, "could not start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, ::inflateEnd);
  // zlib only reads from next_in, but its type is not const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  return inflate_all(max_bytes, [&stream](char* to, std::size_t& room) {
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(room);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    room = stream.avail_out;
    if (status == Z_STREAM_END) return Step::kEnd;
    const bool is_cut = stream.avail_in == 0 && room > 0;
    return status != Z_OK || is_cut ? Step::kMalformed : Step::kMore;
  });
}

Result<std::string> inflate_zstd(std::string_view packed, std::size_t max_bytes) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(::ZSTD_createDStream(),
                                                                             ::ZSTD_freeDStream);
  if (!stream) return fail(ErrorCode::kInternal, "could not start zstd");
  ::ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  return inflate_all(max_bytes, [&](char* to, std::size_t& room) {
    ZSTD_outBuffer out{to, room, 0};
    const std::size_t status = ::ZSTD_decompressStream(stream.get(), &out, &in);
    room -= out.pos;
    if (status == 0) return Step::kEnd;
    const bool is_cut = in.pos == in.size && room > 0;
    return ::ZSTD_isError(status) != 0 || is_cut ? Step::kMalformed : Step::kMore;
  });
}

}  // namespace profd
