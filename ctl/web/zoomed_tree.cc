#include "ctl/web/zoomed_tree.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// The node after the subtree of a node.
std::size_t end_of(const CallTree& tree, std::size_t node) {
  std::size_t at = node + 1;
  while (at < tree.nodes.size() && tree.nodes[at].depth > tree.nodes[node].depth) ++at;
  return at;
}

std::optional<std::size_t> child_of(const CallTree& tree, std::size_t first, std::size_t end,
                                    std::uint32_t step) {
  for (std::size_t child = first; child < end; child = end_of(tree, child)) {
    const std::string name = printable_utf8(tree.nodes[child].group.name, kMaxPrintableBytes);
    if (zoom_step(name) == step) return child;
  }
  return std::nullopt;
}

// The nodes from a root of the tree to the one at the end of the path.
std::vector<std::size_t> nodes_of_path(const CallTree& tree, std::string_view path) {
  std::vector<std::size_t> found;
  std::size_t first = 0;
  std::size_t end = tree.nodes.size();
  for (const std::uint32_t step : zoom_steps(path)) {
    const auto child = child_of(tree, first, end, step);
    if (!child) break;
    found.push_back(*child);
    first = *child + 1;
    end = end_of(tree, *child);
  }
  return found;
}

}  // namespace

std::uint32_t zoom_step(std::string_view printable_name) {
  std::uint32_t hash = 0x811c9dc5;
  for (const char byte : printable_name) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x01000193;
  }
  return hash;
}

std::vector<std::uint32_t> zoom_steps(std::string_view path) {
  std::vector<std::uint32_t> steps;
  while (!path.empty()) {
    const std::string_view text = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(text.size() + 1, path.size()));
    std::uint32_t step = 0;
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), step, 36);
    if (error != std::errc() || at != text.data() + text.size()) break;
    steps.push_back(step);
  }
  return steps;
}

void prune_around(CallTree& tree, std::string_view path, std::size_t max_nodes) {
  std::vector<std::size_t> way = nodes_of_path(tree, path);
  if (way.empty()) return prune(tree, max_nodes, 0);
  const std::size_t end = end_of(tree, way.back());
  for (std::size_t node = way.back() + 1; node < end; ++node) way.push_back(node);
  std::vector<std::uint32_t> places(tree.nodes.size());
  std::vector<TreeNode> kept;
  kept.reserve(way.size());
  for (const std::size_t node : way) {
    places[node] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(tree.nodes[node]));
    if (kept.back().depth != 0) kept.back().parent = places[kept.back().parent];
  }
  tree.left_out += tree.nodes.size() - kept.size();
  tree.nodes = std::move(kept);
  prune(tree, max_nodes, 0);
}

}  // namespace profd
