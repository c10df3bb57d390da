#include "formats/xray/log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "formats/base/errors.h"

namespace profd::xray {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;

}  // namespace

Result<void> Log::add(ByteSource source) {
  std::array<char, kHeaderBytes> room;
  const std::size_t got = source.read_at(0, room);
  const Result<Header> header = read_header({room.data(), got});
  if (!header) return header.error();
  if (files_.empty()) clock_ = Clock(header->frequency_hz);
  if (header->frequency_hz != clock_.header_hz()) {
    return invalid_argument("its tick frequency is " + std::to_string(header->frequency_hz) +
                                " Hz, that of the other files is " +
                                std::to_string(clock_.header_hz()) + " Hz",
                            "convert traces of different hosts one by one");
  }
  files_.push_back({std::move(source), *header});
  find_buffers(files_.back().source, *header, report_,
               [this](const FoundBuffer& found) { index(found); });
  return {};
}

void Log::index(const FoundBuffer& found) {
  if (buffers_.size() >= kMaxBuffers) {
    report_.count(Issue::kTooManyBuffers);
    return;
  }
  if (found.has_ticks) {
    if (found.wall_ns != 0) clock_.add(found.ticks, found.wall_ns);
    if (first_ticks_ == 0 || found.ticks < first_ticks_) first_ticks_ = found.ticks;
  }
  const bool by_wall = files_.back().header.format.version == 1;
  buffers_.push_back(
      {found.thread, by_wall ? static_cast<std::uint64_t>(found.wall_ns) : found.ticks,
       found.offset, found.bytes, static_cast<std::uint32_t>(files_.size() - 1), found.is_cut});
}

bool Log::is_of_one_process() const {
  std::vector<std::set<std::int32_t>> files(files_.size());
  for (const Buffer& buffer : buffers_) {
    if (buffer.thread.process != 0) files[buffer.file].insert(buffer.thread.process);
  }
  std::erase_if(files, [](const auto& processes) { return processes.empty(); });
  if (files.empty()) return true;
  std::set<std::int32_t> joined = std::move(files.back());
  files.pop_back();
  const auto joins = [&](const auto& processes) {
    return std::ranges::any_of(processes, [&](std::int32_t id) { return joined.contains(id); });
  };
  for (auto next = std::ranges::find_if(files, joins); next != files.end();
       next = std::ranges::find_if(files, joins)) {
    joined.merge(*next);
    files.erase(next);
  }
  return files.empty();
}

void Log::sort() {
  // Of two copies, the one in the file with most buffers of the thread is read, since the buffers
  // that continue it are there.
  std::map<std::pair<ThreadId, std::uint32_t>, std::size_t> of_thread;
  if (files_.size() > 1) {
    for (const Buffer& buffer : buffers_) ++of_thread[{buffer.thread, buffer.file}];
  }
  const auto rank = [&](const Buffer& buffer) {
    const std::size_t others = files_.size() > 1 ? of_thread[{buffer.thread, buffer.file}] : 0;
    return std::tuple(buffer.thread, buffer.time, buffer.is_cut, ~buffer.bytes, ~others,
                      buffer.file, buffer.offset);
  };
  std::ranges::sort(buffers_, {}, rank);
  const auto same = [](const Buffer& a, const Buffer& b) {
    return a.thread == b.thread && a.time == b.time;
  };
  const auto twice = std::unique(buffers_.begin(), buffers_.end(), same);
  report_.count(Issue::kDuplicate, static_cast<std::uint64_t>(buffers_.end() - twice));
  buffers_.erase(twice, buffers_.end());
}

void Log::read(Stacks& stacks) {
  chunk_.resize(kReadBytes);
  const Buffer* before = nullptr;
  for (const Buffer& buffer : buffers_) {
    if (before != nullptr && before->thread != buffer.thread) {
      stacks.end_thread(before->thread);
    } else if (before != nullptr && before->file != buffer.file) {
      stacks.gap(buffer.thread, 0);  // another session of the recorder begins
    }
    read_buffer(buffer, stacks);
    before = &buffer;
  }
  if (before != nullptr) stacks.end_thread(before->thread);
}

void Log::read_buffer(const Buffer& buffer, Stacks& stacks) {
  const File& file = files_[buffer.file];
  Tail tail = buffer.is_cut ? Tail::kCut : Tail::kByRuntime;
  std::uint64_t offset = buffer.offset;
  std::uint64_t left = buffer.bytes;
  std::size_t kept = 0;  // bytes of a cut record, at the start of the chunk
  Decoded last;
  stacks.begin_buffer(buffer.thread, file.header.format);
  while (left != 0 && last.stop == Stop::kOutOfBytes) {
    const std::size_t wanted = std::min<std::uint64_t>(left, chunk_.size() - kept);
    const std::size_t got = file.source.read_at(offset, {chunk_.data() + kept, wanted});
    if (got == 0) {
      report_.count(Issue::kUnreadable, left);
      tail = Tail::kCut;
      break;
    }
    offset += got;
    left -= got;
    last = stacks.append(buffer.thread, {chunk_.data(), kept + got});
    kept += got - last.bytes;
    std::memmove(chunk_.data(), chunk_.data() + last.bytes, kept);
  }
  stacks.end_buffer(buffer.thread, last, kept + left, tail);
}

}  // namespace profd::xray
