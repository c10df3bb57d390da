#include "collectors/jit/followed_file.h"

#include <algorithm>
#include <vector>

#include "collectors/host/clock.h"

namespace profd {

std::optional<FollowedFile::Extent> FollowedFile::extent() const {
  struct statx status {};
  if (!stat_cached(file_->fd->get(), STATX_SIZE | STATX_MTIME, status)) return std::nullopt;
  return Extent{.bytes = status.stx_size, .written_ns = nanoseconds_of(status.stx_mtime)};
}

std::optional<JitRefusal> FollowedFile::refusal_of(const Extent& there) const {
  if (there.bytes > kMaxJitFileBytes) return JitRefusal::kTooLarge;
  if (is_dump() && there.bytes < dump_.offset) return JitRefusal::kTruncated;
  return std::nullopt;
}

FollowedFile::Step FollowedFile::read_more(Parser& parser, Clock::time_point now) {
  Step step;
  const auto there = extent();
  if (there && read_to_ == there) {
    set_next_read(now, {}, true);
    return step;
  }
  step.end = there ? refusal_of(*there) : JitRefusal::kNotPermitted;
  if (step.end) return step;
  auto part = read_part(parser);
  step.took = Clock::now() - now;
  if (!part) {
    step.end = strike(part.error().code);
    set_next_read(now, step.took, false);
    return step;
  }
  const std::uint64_t before = offset();
  bool is_rewritten = false;
  if (const auto* dump = std::get_if<JitDumpChunk>(&part->chunk)) {
    dump_ = dump->state;
    if (dump_.frame_lost) step.end = JitRefusal::kMalformed;
  } else {
    const auto& map = std::get<PerfMapChunk>(part->chunk);
    map_ = map.state;
    is_rewritten = map.read.rewritten;
  }
  step.bytes = bytes_between(before, there->bytes);
  const bool has_more = is_rewritten || (offset() > before && offset() < there->bytes);
  if (!has_more) read_to_ = there;
  set_next_read(now, step.took, !has_more);
  step.grew = std::move(*part);
  return step;
}

// The bytes of the file from `before` to offset(), which may lie beyond the end: the size of a
// record is a claim. The file may have grown since it had `known` bytes.
std::uint64_t FollowedFile::bytes_between(std::uint64_t before, std::uint64_t known) const {
  const auto now = extent();
  const std::uint64_t end = std::min(offset(), std::max(known, now ? now->bytes : 0));
  return end - std::min(before, end);
}

Result<JitFileGrew> FollowedFile::read_part(Parser& parser) const {
  JitFileGrew part{
      .file = file_, .read_ns = now_ns(CLOCK_MONOTONIC), .chunk = JitDumpChunk{}, .rows = {}};
  if (is_dump()) {
    auto chunk = parser.read_jitdump(file_->fd->get(), dump_);
    if (!chunk) return chunk.error();
    read_rows(parser, *chunk, part);
    part.chunk = std::move(*chunk);
  } else {
    auto chunk = parser.read_perf_map(file_->fd->get(), map_);
    if (!chunk) return chunk.error();
    part.chunk = std::move(*chunk);
  }
  return part;
}

// Where rows can't be read, nothing else is lost: frame pointers are followed in that code.
void FollowedFile::read_rows(Parser& parser, const JitDumpChunk& chunk, JitFileGrew& part) const {
  std::vector<JitUnwindQuery> queries;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < chunk.read.events.size(); ++i) {
    const JitDumpEvent& event = chunk.read.events[i];
    if (event.unwinding_info.bytes == 0) continue;
    queries.push_back({.address = event.address,
                       .code_bytes = event.code_bytes,
                       .unwinding_info = event.unwinding_info});
    places.push_back(i);
  }
  if (queries.empty()) return;
  auto answers = parser.read_jit_unwind_rows(file_->fd->get(), chunk.state, queries);
  if (!answers) return;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!(*answers)[i].empty()) part.rows.emplace(places[i], std::move((*answers)[i]));
  }
}

// The reason to end reading after this error; none if it is to be tried again.
std::optional<JitRefusal> FollowedFile::strike(ErrorCode code) {
  if (code == ErrorCode::kMalformed) return JitRefusal::kMalformed;
  if (code == ErrorCode::kIo || code == ErrorCode::kPermissionDenied) {
    return JitRefusal::kNotPermitted;
  }
  if (++strikes_ < kMaxStrikes) return std::nullopt;
  if (code == ErrorCode::kBusy) return JitRefusal::kLate;
  return code == ErrorCode::kTimeout ? JitRefusal::kTimeout : JitRefusal::kParserDied;
}

bool FollowedFile::defer(Clock::time_point due) {
  due_ = due;
  return !std::exchange(was_deferred_, true);
}

void FollowedFile::set_next_read(Clock::time_point now, Clock::duration took, bool is_at_end) {
  const Clock::duration rest = (kShareOfCore - 1) * took;
  due_ = now + took + (is_at_end ? std::max(interval_, rest) : rest);
  if (is_at_end) ++times_at_end_;
  const bool was_unchanged = is_at_end && took == Clock::duration::zero();
  interval_ = was_unchanged ? std::min<Clock::duration>(2 * interval_, kLastInterval)
                            : Clock::duration(kFirstInterval);
}

}  // namespace profd
