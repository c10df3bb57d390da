#include "collectors/jit/followed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "collectors/host/clock.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 30;

}  // namespace

// Without asking its file system, which may be a network's.
std::optional<FollowedFile::Extent> FollowedFile::extent() const {
  struct statx status {};
  if (::statx(file_->fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_MTIME,
              &status) != 0) {
    return std::nullopt;
  }
  return Extent{.bytes = status.stx_size, .written_ns = nanoseconds_of(status.stx_mtime)};
}

std::uint64_t FollowedFile::offset() const {
  return file_->kind == JitFileKind::kJitDump ? dump_.offset : map_.offset;
}

FollowedFile::Step FollowedFile::read_on(Parser& parser, Clock::time_point now) {
  Step step;
  const auto there = extent();
  if (!there) {
    step.end = JitRefusal::kNotPermitted;
    return step;
  }
  if (read_to_ == there) {
    rest(now, {}, true);
    return step;
  }
  if (there->bytes > kMaxFileBytes) {
    step.end = JitRefusal::kTooLarge;
  } else if (file_->kind == JitFileKind::kJitDump && there->bytes < dump_.offset) {
    step.end = JitRefusal::kTruncated;
  }
  if (step.end) return step;
  auto part = read_part(parser);
  step.took = Clock::now() - now;
  if (!part) {
    step.end = strike(part.error().code);
    rest(now, step.took, false);
    return step;
  }
  const std::uint64_t before = offset();
  take_up(*part, step);
  const bool has_more = step.bytes > 0 && before + step.bytes < there->bytes;
  const bool is_anew = part->epoch != epoch_;
  epoch_ = part->epoch;
  if (!has_more && !is_anew) read_to_ = there;
  rest(now, step.took, !has_more && !is_anew);
  step.news = std::move(*part);
  return step;
}

Result<JitFileGrew> FollowedFile::read_part(Parser& parser) const {
  JitFileGrew part{.file = file_,
                   .epoch = epoch_,
                   .read_ns = now_ns(CLOCK_MONOTONIC),
                   .chunk = JitDumpChunk{},
                   .rows = {}};
  if (file_->kind == JitFileKind::kJitDump) {
    auto chunk = parser.read_jitdump(file_->fd.get(), dump_);
    if (!chunk) return chunk.error();
    read_rows(parser, *chunk, part);
    part.chunk = std::move(*chunk);
  } else {
    auto chunk = parser.read_perf_map(file_->fd.get(), map_);
    if (!chunk) return chunk.error();
    if (chunk->read.rewritten) ++part.epoch;
    part.chunk = std::move(*chunk);
  }
  return part;
}

// Rows that can't be had cost nothing else: frame pointers are followed then.
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
  auto answers = parser.read_jit_unwind_rows(file_->fd.get(), chunk.state, queries);
  if (!answers) return;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!(*answers)[i].empty()) part.rows.emplace(places[i], std::move((*answers)[i]));
  }
}

void FollowedFile::take_up(const JitFileGrew& part, Step& step) {
  const std::uint64_t before = offset();
  if (const auto* dump = std::get_if<JitDumpChunk>(&part.chunk)) {
    dump_ = dump->state;
    if (dump_.frame_lost) step.end = JitRefusal::kMalformed;
  } else {
    map_ = std::get<PerfMapChunk>(part.chunk).state;
  }
  if (offset() > before) step.bytes = offset() - before;
}

// Why the file is at its end, if it is.
std::optional<JitRefusal> FollowedFile::strike(ErrorCode code) {
  if (code == ErrorCode::kMalformed) return JitRefusal::kMalformed;
  if (code == ErrorCode::kIo || code == ErrorCode::kPermissionDenied) {
    return JitRefusal::kNotPermitted;
  }
  if (++strikes_ < kMaxStrikes) return std::nullopt;
  if (code == ErrorCode::kBusy) return JitRefusal::kLate;
  return code == ErrorCode::kTimeout ? JitRefusal::kTimeout : JitRefusal::kParserDied;
}

void FollowedFile::rest(Clock::time_point now, Clock::duration took, bool is_at_end) {
  const Clock::time_point began = now + took;
  if (!is_at_end) {
    interval_ = JitFollower::kFirstInterval;
    due_ = began + (kShareOfCore - 1) * took;
    return;
  }
  ++times_at_end_;
  due_ = began + std::max<Clock::duration>(interval_, (kShareOfCore - 1) * took);
  const bool was_idle = took == Clock::duration::zero();
  interval_ = was_idle ? std::min<Clock::duration>(2 * interval_, JitFollower::kLastInterval)
                       : JitFollower::kFirstInterval;
}

}  // namespace profd
