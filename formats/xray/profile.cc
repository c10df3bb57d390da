#include "formats/xray/profile.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "formats/elf/image.h"
#include "formats/xray/fdr_format.h"

namespace profd::xray {
namespace {

// Above the addresses that programs map on x86-64, and below the limit of Perl's pprof.
constexpr std::uint64_t kUnknownBase = 0x7ffe'0000'0000;
constexpr std::uint64_t kUnknownStride = 16;

constexpr std::uint64_t kMinDepth = 16;

constexpr double kMaxCount = 1e18;

// The number of frames of each node's stack.
std::vector<std::uint32_t> depths_of(std::span<const CallTree::Node> nodes) {
  std::vector<std::uint32_t> depths(nodes.size(), 0);
  std::vector<CallTree::Index> path;
  for (CallTree::Index node = 0; node < nodes.size(); ++node) {
    for (CallTree::Index at = node; depths[at] == 0 && nodes[at].parent != CallTree::kNone;
         at = nodes[at].parent) {
      path.push_back(at);
    }
    for (; !path.empty(); path.pop_back()) {
      depths[path.back()] = depths[nodes[path.back()].parent] + 1;
    }
  }
  return depths;
}

std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, ~std::uint64_t{0} - a);
}

// Converts ticks to whole units so that the sum of all is exact to half a unit.
class Rounding {
 public:
  explicit Rounding(double units_per_tick) : units_per_tick_(units_per_tick) {}

  std::uint64_t next(std::uint64_t ticks) {
    ticks_ = saturated_sum(ticks_, ticks);
    const double units = std::min(static_cast<double>(ticks_) * units_per_tick_ + 0.5, kMaxCount);
    const auto total = static_cast<std::uint64_t>(units);
    return total - std::exchange(returned_, std::max(total, returned_));
  }

 private:
  double units_per_tick_;
  std::uint64_t ticks_ = 0;
  std::uint64_t returned_ = 0;
};

// Writes the innermost frames of a node's stack to `frames`, leaf first.
void read_frames(std::span<const CallTree::Node> nodes, const CodeMap& code, CallTree::Index node,
                 std::uint64_t max_depth, std::vector<Frame>& frames) {
  frames.clear();
  for (; nodes[node].parent != CallTree::kNone && frames.size() < max_depth;
       node = nodes[node].parent) {
    frames.push_back({code.address_of(nodes[node].function()), PcKind::kExact});
  }
}

// Whether the function has sleds for these actions. Old runtimes write plain entries and exits for
// entries with arguments and tail exits.
bool can_write(const Function& function, std::uint8_t actions) {
  const auto wrote = [&](Action action) {
    return (actions >> static_cast<unsigned>(action) & 1) != 0;
  };
  const bool enters = function.has(Sled::kEnter) || function.has(Sled::kEnterWithArguments);
  const bool exits = function.has(Sled::kExit) || function.has(Sled::kTailExit);
  return (!wrote(Action::kEnter) || enters) && (!wrote(Action::kExit) || exits) &&
         (!wrote(Action::kTailExit) || function.has(Sled::kTailExit)) &&
         (!wrote(Action::kEnterWithArguments) || function.has(Sled::kEnterWithArguments));
}

std::string without_separators(std::string name) {
  for (char& c : name) {
    if (c == ';') c = ':';
    if (c == '\n' || c == '\r') c = '?';
  }
  return name;
}

}  // namespace

const Function* CodeMap::find(std::uint32_t id) const {
  if (objects_.empty()) return nullptr;
  if (objects_.size() == 1) return objects_.front().map.find(id);
  const std::uint32_t object = id >> kObjectShift;
  return object < objects_.size() ? objects_[object].map.find(id & kFunctionOfObject) : nullptr;
}

std::uint64_t CodeMap::address_of(std::uint32_t id) const {
  const Function* const function = find(id);
  if (function == nullptr) return kUnknownBase + id * kUnknownStride;
  const std::size_t object = objects_.size() == 1 ? 0 : id >> kObjectShift;
  return function->address + objects_[object].bias;
}

Profiles make_profiles(const CallTree& tree, double ns_per_tick, const CodeMap& code,
                       const ProfileOptions& options) {
  Profiles made;
  made.exclusive.period = 1;
  made.calls.period = 1;
  const std::span<const CallTree::Node> nodes = tree.nodes();
  const std::vector<std::uint32_t> depths = depths_of(nodes);
  std::uint64_t frames = 0;
  for (const std::uint32_t depth : depths) frames += depth;
  const std::uint64_t max_depth = frames <= options.max_frames
                                      ? std::uint64_t{CallTree::kNone}
                                      : std::max(options.max_frames / nodes.size(), kMinDepth);
  Rounding microseconds(ns_per_tick / 1000);
  std::vector<Frame> stack;
  std::set<std::uint32_t> unknown;
  for (CallTree::Index node = 0; node < nodes.size(); ++node) {
    if (nodes[node].parent == CallTree::kNone) continue;
    const std::uint32_t function = nodes[node].function();
    if (code.find(function) == nullptr) unknown.insert(function);
    if (nodes[node].calls == 0 && nodes[node].self_ticks == 0) continue;
    read_frames(nodes, code, node, max_depth, stack);
    if (options.exclusive) {
      made.exclusive.add_stack(stack, microseconds.next(nodes[node].self_ticks));
    }
    if (options.calls) made.calls.add_stack(stack, nodes[node].calls);
    if (depths[node] > max_depth) ++made.cut_stacks;
  }
  made.unknown.assign(unknown.begin(), unknown.end());
  return made;
}

Mismatch find_mismatch(const CallTree& tree, const CodeMap& code) {
  std::map<std::uint32_t, bool> is_beyond;  // by the id of a function that does not fit
  if (code.empty()) return {};
  Mismatch found;
  std::set<std::uint32_t> functions;
  for (const CallTree::Node& node : tree.nodes()) {
    if (node.parent == CallTree::kNone) continue;
    functions.insert(node.function());
    found.calls = saturated_sum(found.calls, node.calls);
    const Function* const function = code.find(node.function());
    if (function == nullptr) {
      if (node.function() >> kObjectShift != 0) continue;
      is_beyond[node.function()] = true;
      found.beyond_calls = saturated_sum(found.beyond_calls, node.calls);
    } else if (!can_write(*function, node.actions())) {
      is_beyond[node.function()] = false;
    }
  }
  found.functions = functions.size();
  for (const auto& [id, beyond] : is_beyond) ++(beyond ? found.beyond : found.unlike);
  if (!is_beyond.empty()) found.example = is_beyond.begin()->first;
  return found;
}

UnknownImage make_unknown_image(const std::vector<std::uint32_t>& ids) {
  AbsoluteImage image;
  const CodeMap empty;
  image.functions.reserve(ids.size());
  for (const std::uint32_t id : ids) {
    image.functions.push_back({empty.address_of(id), kUnknownStride, unknown_name(id)});
  }
  const ImagePlacement place = placement_of(image);
  return {encode_absolute_image(image), {place.start, place.end, place.file_offset, {}}};
}

std::string unknown_name(std::uint32_t id) { return "xray:" + std::to_string(id); }

std::string unknown_name_at(std::uint64_t address) {
  return unknown_name(static_cast<std::uint32_t>((address - kUnknownBase) / kUnknownStride));
}

std::string make_folded(const CallTree& tree, double ns_per_tick, FoldedValue value,
                        const NameOf& name_of) {
  std::map<std::uint32_t, std::string> names;
  const auto name = [&](std::uint32_t id) -> const std::string& {
    const auto [found, added] = names.try_emplace(id);
    if (added) found->second = without_separators(name_of(id));
    return found->second;
  };
  std::string text;
  Rounding nanoseconds(ns_per_tick);
  std::vector<std::uint32_t> ids;
  const std::span<const CallTree::Node> nodes = tree.nodes();
  for (CallTree::Index node = 0; node < nodes.size(); ++node) {
    if (nodes[node].parent == CallTree::kNone) continue;
    const std::uint64_t count =
        value == FoldedValue::kCalls ? nodes[node].calls : nanoseconds.next(nodes[node].self_ticks);
    if (count == 0) continue;
    ids.clear();
    for (CallTree::Index at = node; nodes[at].parent != CallTree::kNone; at = nodes[at].parent) {
      ids.push_back(nodes[at].function());
    }
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      text.append(id == ids.rbegin() ? "" : ";").append(name(*id));
    }
    text.append(" ").append(std::to_string(count)).append("\n");
  }
  return text;
}

}  // namespace profd::xray
