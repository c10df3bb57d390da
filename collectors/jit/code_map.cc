#include "collectors/jit/code_map.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

// The lower bits of JitFunction::generation: 10,000 records a second for three years.
constexpr unsigned kSerialBits = 40;

struct Found {
  std::optional<JitCode> code;
  const JitLayer* layer = nullptr;
  bool lived = false;  // at the time; otherwise it is the oldest later code
};

Found find_in(const JitLayer& layer, std::uint64_t address, std::uint64_t time_ns) {
  if (layer.is_unmapped(address, time_ns)) return {};
  const std::uint64_t time = std::min(time_ns, layer.until_ns);
  const auto code = layer.map->index.at(address, time);
  // What a parent compiles after the fork is the parent's alone.
  if (!code || code->born_ns > layer.until_ns) return {};
  return {.code = code, .layer = &layer, .lived = code->born_ns <= time};
}

// In the layers of jitdumps or, without times, of perf maps. Code that lived at the time comes
// before all later code.
Found find_in_files(const std::vector<JitLayer>& layers, bool with_times, std::uint64_t address,
                    std::uint64_t time_ns) {
  Found later;
  for (const JitLayer& layer : layers) {
    if (layer.map->has_times() != with_times) continue;
    const Found found = find_in(layer, address, time_ns);
    if (found.lived) return found;
    if (!later.code) later = found;
  }
  return later;
}

std::optional<JitFunction> function_of(const Found& found) {
  if (!found.code) return std::nullopt;
  const std::uint64_t map = found.layer->map->number;
  return JitFunction{.generation = map << kSerialBits | found.code->serial, .code = *found.code};
}

bool is_same(const JitCode& a, const JitCode& b) {
  return a.address == b.address && a.bytes == b.bytes && a.name == b.name;
}

}  // namespace

void JitCodeMap::unmap(const UnmapView& unmap) {
  if (unmaps >= kFreeUnmaps + loads) return;
  ++unmaps;
  const std::uint64_t length = unmap.end - unmap.start;
  index.end(unmap.start, length, unmap.time_ns);
  if (index.is_unchanged_since(unmap.start, length, unmap.time_ns)) {
    rows.erase(unmap.start, unmap.end);
  }
  bytes = memory_bytes();
}

void JitCodeMap::forget_code() {
  index = JitCodeIndex{kLimits};
  rows.erase(0, UINT64_MAX);
  bytes = memory_bytes();
}

std::shared_ptr<JitCodeMap> JitCodeMaps::make(std::shared_ptr<const JitSourceFile> source,
                                              bool is_shared) {
  auto map = std::make_shared<JitCodeMap>();
  map->number = ++last_number_;
  map->source = std::move(source);
  map->is_shared = is_shared;
  map->rows = JitCodeRows(forgotten_);
  map->bytes = map->memory_bytes();
  maps_.push_back(map);
  return map;
}

std::map<std::uint32_t, std::size_t> JitCodeMaps::bytes_by_owner() const {
  std::map<std::uint32_t, std::size_t> bytes;
  for (const auto& entry : maps_) {
    if (const auto map = entry.lock()) bytes[map->source->owner()] += map->bytes;
  }
  return bytes;
}

void JitCodeMaps::forget_code_of(const IsOwner& is_owner) const {
  for (const auto& entry : maps_) {
    const auto map = entry.lock();
    if (map && is_owner(map->source->owner())) map->forget_code();
  }
}

void JitCodeMaps::add_to(JitStats& stats) const {
  for (const auto& entry : maps_) {
    const auto map = entry.lock();
    if (!map) continue;
    const JitCodeLosses& losses = map->index.losses();
    stats.functions += map->index.functions();
    stats.forgotten += losses.forgotten + losses.unknown_moves;
  }
}

void JitCodeMaps::forget_unused() {
  std::erase_if(maps_, [](const auto& map) { return map.expired(); });
}

bool JitLayer::is_unmapped(std::uint64_t address, std::uint64_t time_ns) const {
  return std::ranges::any_of(unmaps, [address, time_ns](const UnmapView& unmap) {
    return unmap.start <= address && address < unmap.end && unmap.time_ns <= time_ns;
  });
}

void unmap_in_layers(std::vector<JitLayer>& layers, const UnmapView& unmap) {
  for (JitLayer& layer : layers) {
    if (layer.map->is_shared) continue;
    if (layer.is_own()) {
      layer.map->unmap(unmap);
    } else if (layer.unmaps.size() < JitLayer::kMaxUnmaps) {
      layer.unmaps.push_back(unmap);
    } else {
      UnmapView& last = layer.unmaps.back();
      last.start = std::min(last.start, unmap.start);
      last.end = std::max(last.end, unmap.end);
    }
  }
}

std::optional<JitFunction> find_in_layers(const std::vector<JitLayer>& layers,
                                          std::uint64_t address, std::uint64_t time_ns) {
  const Found dump = find_in_files(layers, true, address, time_ns);
  const Found map = find_in_files(layers, false, address, time_ns);
  if (!dump.code || !map.code) return function_of(dump.code ? dump : map);
  // The jitdump has the code bytes and lines too.
  if (is_same(*dump.code, *map.code)) return function_of(dump);
  if (!dump.lived) {
    const bool is_older = map.code->born_ns < dump.code->born_ns;
    return function_of(map.lived || is_older ? map : dump);
  }
  if (time_ns < dump.layer->map->last_record_ns) return function_of(dump);
  const auto newer = map.layer->map->index.successor_of(*dump.code, address,
                                                        std::min(time_ns, map.layer->until_ns));
  return function_of(newer ? Found{.code = newer, .layer = map.layer} : dump);
}

}  // namespace profd
