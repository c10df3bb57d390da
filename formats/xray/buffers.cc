#include "formats/xray/buffers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace profd::xray {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
constexpr std::size_t kMinBufferBytes = 4 * kMetadataBytes;

// Collects the content of a buffer's first records.
struct Preamble : Handler, FoundBuffer {
  bool begins = false;
  bool has_records = false;

  void on_new_buffer(std::int32_t id) {
    begins = true;
    thread.thread = id;
  }
  void on_pid(std::int32_t id) { thread.process = id; }
  void on_wall_clock(std::int64_t ns) { wall_ns = ns; }
  void on_absolute_ticks(std::uint64_t absolute) {
    if (!has_ticks) ticks = absolute;
    has_ticks = true;
  }
  void on_function(Action /*action*/, std::uint32_t /*id*/, std::uint64_t /*ticks*/) {
    has_records = true;
  }
  void on_event(const Event& /*event*/) { has_records = true; }
};

class Finder {
 public:
  Finder(const ByteSource& source, const Header& header, Report& report,
         const std::function<void(const FoundBuffer&)>& found)
      : source_(source), header_(header), report_(report), found_(found) {}

  void find_all() {
    std::uint64_t at = kHeaderBytes;
    while (at < source_.bytes) at = header_.format.version == 1 ? take_padded(at) : take(at);
  }

 private:
  [[nodiscard]] std::string_view read(std::uint64_t at, std::span<char> to) const {
    std::size_t got = 0;
    while (got < to.size() && at + got < source_.bytes) {
      const std::size_t more = source_.read_at(at + got, to.subspan(got));
      if (more == 0) break;
      got += more;
    }
    return {to.data(), got};
  }

  [[nodiscard]] bool is_kind(std::string_view bytes, std::size_t at, Kind kind) const {
    const auto number = static_cast<unsigned>(kind);
    const unsigned first =
        header_.format.order == std::endian::little ? number << 1 | 1 : number | 0x80;
    return at < bytes.size() && static_cast<unsigned char>(bytes[at]) == first;
  }

  // The kind of a buffer's first record.
  [[nodiscard]] Kind opening() const {
    return header_.format.version == 1 ? Kind::kNewBuffer : Kind::kBufferExtents;
  }

  // Whether these are the first records of a buffer. Other bytes look like them only on purpose.
  [[nodiscard]] bool is_preamble(std::string_view bytes) const {
    const std::size_t start = header_.format.version == 1 ? 0 : kMetadataBytes;
    return is_kind(bytes, 0, opening()) && is_kind(bytes, start, Kind::kNewBuffer) &&
           is_kind(bytes, start + kMetadataBytes, Kind::kWallClock);
  }

  // The offset of the first preamble in [from, end).
  [[nodiscard]] std::optional<std::uint64_t> search(std::uint64_t from, std::uint64_t end) {
    constexpr std::size_t kSeen = 2 * kMetadataBytes + 1;
    chunk_.resize(kChunkBytes);
    while (from < end) {
      const std::string_view bytes = read(from, chunk_);
      if (bytes.size() < kSeen) return std::nullopt;
      const std::size_t starts = std::min<std::uint64_t>(bytes.size() - kSeen + 1, end - from);
      for (std::size_t i = 0; i < starts; ++i) {
        if (is_preamble(bytes.substr(i))) return from + i;
      }
      from += starts;
    }
    return std::nullopt;
  }

  // Whether a buffer may end at `at`: another one begins there, which may be empty, or the trace
  // ends.
  [[nodiscard]] bool is_boundary(std::uint64_t at) const {
    if (at >= source_.bytes) return at == source_.bytes;
    std::array<char, 2 * kMetadataBytes> room;
    const std::string_view bytes = read(at, room);
    if (is_header(bytes)) return true;
    if (!is_kind(bytes, 0, Kind::kBufferExtents)) return false;
    return bytes.size() <= kMetadataBytes || is_kind(bytes, kMetadataBytes, Kind::kNewBuffer) ||
           extent_of(bytes) == 0;
  }

  // Whether a header follows: several traces may be concatenated in a file.
  [[nodiscard]] bool is_header(std::string_view bytes) const {
    const Result<Header> other = read_header(bytes);
    return other && other->format == header_.format;
  }

  [[nodiscard]] std::uint64_t extent_of(std::string_view bytes) const {
    Metadata record;
    if (bytes.size() < kMetadataBytes) return 0;
    return read_metadata(header_.format, bytes.substr(0, kMetadataBytes), record) ? record.value
                                                                                  : 0;
  }

  // The following functions return the offset at which to continue.
  std::uint64_t skip_junk(std::uint64_t at) {
    const std::uint64_t next = search(at + 1, source_.bytes).value_or(source_.bytes);
    report_.count(Issue::kJunk, next - at);
    return next;
  }

  std::uint64_t take(std::uint64_t at) {
    std::array<char, kMetadataBytes + kMaxPreambleBytes> room;
    const std::string_view bytes = read(at, room);
    if (is_header(bytes)) return at + kHeaderBytes;
    if (!is_kind(bytes, 0, Kind::kBufferExtents) || bytes.size() < kMetadataBytes) {
      return skip_junk(at);
    }
    const std::uint64_t start = at + kMetadataBytes;
    const std::uint64_t end = end_of(start, extent_of(bytes));
    const bool is_cut = end - start != extent_of(bytes);
    add(start, end, is_cut, bytes.substr(kMetadataBytes));
    return end;
  }

  [[nodiscard]] std::uint64_t end_of(std::uint64_t start, std::uint64_t extent) {
    const std::uint64_t end = start + std::min(extent, source_.bytes - start);
    if (extent <= source_.bytes - start && is_boundary(end)) return end;
    return search(start, end).value_or(end);
  }

  std::uint64_t take_padded(std::uint64_t at) {
    const std::uint64_t left = source_.bytes - at;
    std::array<char, kMaxPreambleBytes> room;
    const std::string_view bytes = read(at, room);
    const bool is_sane = header_.buffer_bytes >= kMinBufferBytes &&
                         header_.buffer_bytes <= source_.bytes - kHeaderBytes;
    const std::uint64_t end = is_sane ? at + std::min(left, header_.buffer_bytes)
                                      : search(at + 1, source_.bytes).value_or(source_.bytes);
    if (is_preamble(bytes)) {
      add(at, end, is_sane && left < header_.buffer_bytes, bytes);
    } else {
      report_.count(Issue::kJunk, end - at);
    }
    return end;
  }

  void add(std::uint64_t start, std::uint64_t end, bool is_cut, std::string_view bytes) {
    Preamble preamble;
    Position position;
    bytes = bytes.substr(0, std::min<std::uint64_t>(bytes.size(), end - start));
    (void)decode_records(header_.format, bytes, position, preamble);
    if (is_cut) report_.count(Issue::kCutBuffer);
    const bool is_complete = end - start <= bytes.size();
    if (start == end || (preamble.begins && !preamble.has_records && is_complete)) {
      report_.count(Issue::kEmptyBuffer);
    } else if (!preamble.begins || (!preamble.has_ticks && header_.format.version > 1)) {
      report_.count(Issue::kMalformedBuffer);
      report_.count(Issue::kMalformedBytes, end - start);
    } else {
      preamble.offset = start;
      preamble.bytes = end - start;
      preamble.is_cut = is_cut;
      found_(preamble);
    }
  }

  const ByteSource& source_;
  const Header& header_;
  Report& report_;
  const std::function<void(const FoundBuffer&)>& found_;
  std::string chunk_;
};

}  // namespace

void find_buffers(const ByteSource& source, const Header& header, Report& report,
                  const std::function<void(const FoundBuffer&)>& found) {
  Finder(source, header, report, found).find_all();
}

}  // namespace profd::xray
