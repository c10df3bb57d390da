#include "collectors/jit/code_map.h"

#include <algorithm>

namespace profd {
namespace {

std::optional<JitAnswer> find_in(const JitLayer& layer, std::uint64_t address,
                                 std::uint64_t time_ns) {
  auto code = layer.space->index.at(address, time_ns);
  // What the parent made after the fork is the parent's alone.
  if (!code || code->born_ns > layer.until_ns) return std::nullopt;
  return JitAnswer{.space = layer.space->number, .code = *code};
}

struct Found {
  std::optional<JitAnswer> answer;
  const JitLayer* layer = nullptr;
  bool lived = false;  // else it was told of later than it ran
};

// In the layers that jitdumps or, else, maps told of. What lived at the time counts before all that
// is told of later.
Found find_in_files(const std::vector<JitLayer>& layers, bool have_times, std::uint64_t address,
                    std::uint64_t time_ns) {
  Found later;
  for (const JitLayer& layer : layers) {
    if (layer.space->has_times != have_times || layer.has_given_up(address, time_ns)) continue;
    const std::uint64_t time = std::min(time_ns, layer.until_ns);
    Found found{.answer = find_in(layer, address, time), .layer = &layer};
    if (!found.answer) continue;
    found.lived = found.answer->code.born_ns <= time;
    if (found.lived) return found;
    if (!later.answer) later = found;
  }
  return later;
}

bool is_same(const JitCode& a, const JitCode& b) {
  return a.address == b.address && a.bytes == b.bytes && a.name == b.name;
}

JitFileRange take_expected(JitSource& source, std::uint64_t address) {
  const auto lines = source.expected.extract(address);
  return lines ? lines.mapped() : JitFileRange{};
}

// False: there is no room.
bool expect_load(JitSource& source, const JitDumpEvent& event) {
  const bool is_room = source.expected.size() < JitSource::kMaxExpected;
  if (!is_room && !source.expected.contains(event.address)) return false;
  source.expected.insert_or_assign(event.address, event.debug_info);
  return true;
}

void add_load(JitSource& source, JitCodeMap& space, const JitDumpEvent& event,
              std::uint64_t time_ns) {
  const JitFileRange expected = take_expected(source, event.address);
  ++space.loads;
  space.index.add({.address = event.address,
                   .bytes = event.code_bytes,
                   .born_ns = time_ns,
                   .source = source.told->number,
                   .name = event.name,
                   .code = event.code,
                   .debug_info = event.debug_info.bytes != 0 ? event.debug_info : expected,
                   .unwinding_info = event.unwinding_info});
}

// Code that comes without rows takes those away that were there.
void renew_rows(JitCodeMap& space, const JitDumpEvent& event,
                const std::vector<JitUnwindRows>* functions) {
  if (event.kind == JitDumpEventKind::kLoad || event.kind == JitDumpEventKind::kMove) {
    space.rows.erase(event.address, event.address + event.code_bytes);
  }
  if (functions == nullptr) return;
  for (const JitUnwindRows& function : *functions) space.rows.set(function);
}

const std::vector<JitUnwindRows>* rows_of(const JitFileGrew& part, std::size_t event) {
  const auto found = part.rows.find(event);
  return found == part.rows.end() ? nullptr : &found->second;
}

// Null: there are too many already.
JitCodeMap* space_of(JitSource& source, std::uint32_t pid, const MakeJitCodeMap& make_space) {
  const std::uint32_t place = source.place_of(pid);
  const auto known = source.spaces.find(place);
  if (known != source.spaces.end()) return known->second.get();
  if (source.spaces.size() >= JitSource::kMaxSpaces) return nullptr;
  auto space = make_space();
  space->is_everyones = source.is_shared;
  space->told_by.push_back(source.told);
  return source.spaces.emplace(place, std::move(space)).first->second.get();
}

// Whether it had a space to go to.
bool take_up_code(JitSource& source, const JitDumpEvent& event, std::uint64_t time_ns,
                  const std::vector<JitUnwindRows>* rows, const MakeJitCodeMap& make_space) {
  JitCodeMap* const space = space_of(source, event.pid, make_space);
  if (space == nullptr) return false;
  if (event.kind == JitDumpEventKind::kMove) {
    ++space->loads;
    space->index.move(event.old_address, event.address, time_ns);
  } else {
    add_load(source, *space, event, time_ns);
  }
  renew_rows(*space, event, rows);
  return true;
}

JitLeftOut take_up_dump(JitSource& source, const JitFileGrew& part, const TscConversion* tsc,
                        const MakeJitCodeMap& make_space) {
  const auto& chunk = std::get<JitDumpChunk>(part.chunk);
  const bool is_tsc = chunk.state.has_arch_timestamps();
  const auto read_ns = static_cast<std::uint64_t>(part.read_ns);
  JitLeftOut left_out;
  std::uint64_t last_ns = 0;
  source.told->source.state = chunk.state;
  for (std::size_t i = 0; i < chunk.read.events.size(); ++i) {
    const JitDumpEvent& event = chunk.read.events[i];
    std::uint64_t time_ns = event.timestamp;
    if (is_tsc) time_ns = tsc != nullptr ? tsc_to_ns(event.timestamp, *tsc) : read_ns;
    // No record is of the future: one that says so would make all before it final.
    last_ns = std::max(last_ns, std::min(time_ns, read_ns));
    switch (event.kind) {
      case JitDumpEventKind::kLoad:
      case JitDumpEventKind::kMove:
        if (!take_up_code(source, event, time_ns, rows_of(part, i), make_space)) ++left_out.foreign;
        break;
      case JitDumpEventKind::kDebugInfo:
        if (!expect_load(source, event)) ++left_out.lines;
        break;
      case JitDumpEventKind::kUnwindingInfo:  // names no pid: it is the writer's
        if (JitCodeMap* const space = space_of(source, chunk.state.pid, make_space)) {
          renew_rows(*space, event, rows_of(part, i));
        }
        break;
      case JitDumpEventKind::kClose:  // others may go on writing
        break;
    }
  }
  for (const auto& [pid, space] : source.spaces) {
    space->index.seen_until(last_ns);
    space->told_until_ns = std::max(space->told_until_ns, last_ns);
  }
  return left_out;
}

void take_up_map(JitSource& source, const JitFileGrew& part) {
  for (const auto& [pid, space] : source.spaces) {
    space->loads += std::get<PerfMapChunk>(part.chunk).read.lines.size();
    for (const PerfMapLine& line : std::get<PerfMapChunk>(part.chunk).read.lines) {
      space->index.add({.address = line.address,
                        .bytes = line.bytes,
                        .born_ns = static_cast<std::uint64_t>(part.read_ns),
                        .source = source.told->number,
                        .name = line.name,
                        .code = {},
                        .debug_info = {},
                        .unwinding_info = {}});
    }
  }
}

}  // namespace

void JitCodeMap::give_up(const UnmapView& unmap) {
  if (ends >= kFreeEnds + loads) return;
  ++ends;
  const std::uint64_t length = unmap.end - unmap.start;
  index.end(unmap.start, length, unmap.time_ns);
  if (index.is_bare_since(unmap.start, length, unmap.time_ns)) rows.erase(unmap.start, unmap.end);
  bytes = memory_bytes();
}

bool JitLayer::has_given_up(std::uint64_t address, std::uint64_t time_ns) const {
  return std::ranges::any_of(given_up, [address, time_ns](const UnmapView& unmap) {
    return unmap.start <= address && address < unmap.end && unmap.time_ns <= time_ns;
  });
}

void give_up(std::vector<JitLayer>& layers, const UnmapView& unmap) {
  for (JitLayer& layer : layers) {
    if (layer.space->is_everyones) continue;
    if (layer.is_own()) {
      layer.space->give_up(unmap);
    } else if (layer.given_up.size() < JitLayer::kMaxGivenUp) {
      layer.given_up.push_back(unmap);
    } else {
      UnmapView& last = layer.given_up.back();
      last.start = std::min(last.start, unmap.start);
      last.end = std::max(last.end, unmap.end);
    }
  }
}

std::optional<JitAnswer> find_in_layers(const std::vector<JitLayer>& layers, std::uint64_t address,
                                        std::uint64_t time_ns) {
  const Found dump = find_in_files(layers, true, address, time_ns);
  const Found map = find_in_files(layers, false, address, time_ns);
  if (!dump.answer || !map.answer) return dump.answer ? dump.answer : map.answer;
  // It has the code and its lines.
  if (is_same(dump.answer->code, map.answer->code)) return dump.answer;
  if (!dump.lived) {
    const bool is_older = map.answer->code.born_ns < dump.answer->code.born_ns;
    return map.lived || is_older ? map.answer : dump.answer;
  }
  if (time_ns < dump.layer->space->told_until_ns) return dump.answer;
  const auto newer = map.layer->space->index.successor_of(dump.answer->code, address,
                                                          std::min(time_ns, map.layer->until_ns));
  if (!newer) return dump.answer;
  return JitAnswer{.space = map.answer->space, .code = *newer};
}

std::uint64_t JitSource::foreign_records() const {
  std::uint64_t count = 0;
  for (const auto& [pid, space] : spaces) {
    if (!space->has_process) count += space->loads;
  }
  return count;
}

std::size_t JitSource::memory_bytes() const {
  constexpr std::size_t kNodeBytes = 32;  // of a map, beside its value
  return expected.size() * (sizeof(decltype(expected)::value_type) + kNodeBytes);
}

JitLeftOut take_up(JitSource& source, const JitFileGrew& part, const TscConversion* tsc,
                   const MakeJitCodeMap& make_space) {
  if (source.is_dump()) return take_up_dump(source, part, tsc, make_space);
  take_up_map(source, part);
  return {};
}

}  // namespace profd
