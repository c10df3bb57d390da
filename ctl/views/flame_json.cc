#include "ctl/views/flame_json.h"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "ctl/views/view_text.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::uint32_t kLabelKind = kFrameKinds;

// In JSON these characters stand in texts only; "<" begins "</script>" and "<!--".
std::string for_script(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string json_of_name(std::string_view name) {
  const std::string text = printable_utf8(name, kMaxPrintableBytes);
  return for_script(json_text(boost::json::string(text)));
}

class NumberList {
 public:
  void add(std::int64_t number) { text_ += (text_.empty() ? "" : ",") + std::to_string(number); }
  [[nodiscard]] std::string text() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

class TextList {
 public:
  // The number of the text.
  std::uint32_t add(std::string_view text) {
    const auto [known, added] = numbers_.try_emplace(text, numbers_.size());
    if (added) text_ += (text_.empty() ? "" : ",") + json_of_name(text);
    return static_cast<std::uint32_t>(known->second);
  }
  [[nodiscard]] std::string text() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
  std::map<std::string_view, std::size_t> numbers_;
};

// The functions and labels of a tree, each once.
class FunctionList {
 public:
  std::uint32_t add(const TreeNode& node) {
    const auto [known, added] = numbers_.try_emplace(
        std::pair(std::string_view(node.group.name), node.is_label), numbers_.size());
    if (added) {
      names_ += (names_.empty() ? "" : ",") + json_of_name(node.group.name);
      objects_of_.push_back(node.group.object);
      first_of_.push_back(&node);
      kinds_.add(node.is_label ? kLabelKind : static_cast<std::uint32_t>(node.group.kind));
    }
    std::string_view& object = objects_of_[known->second];
    if (object != node.group.object) object = kSeveral;
    return static_cast<std::uint32_t>(known->second);
  }
  [[nodiscard]] std::string text() const {
    TextList objects;
    NumberList places;
    for (const std::string_view object : objects_of_) places.add(objects.add(base_name(object)));
    return "\"objects\":" + objects.text() + ",\"functions\":{\"name\":[" + names_ +
           "],\"object\":" + places.text() + ",\"kind\":" + kinds_.text() + "}";
  }
  // Of labels, which have none, they are 0.
  [[nodiscard]] std::string text_of(const FunctionSums& sums) const {
    std::string text;
    for (const TreeNode* const node : first_of_) {
      const auto known = node->is_label ? sums.end() : sums.find(node->group.name);
      const FunctionSum sum = known == sums.end() ? FunctionSum() : known->second;
      NumberList one;
      for (const std::int64_t number :
           {sum.self.samples, sum.total.samples, sum.self.cpu_ns, sum.total.cpu_ns}) {
        one.add(number);
      }
      text += (text.empty() ? "" : ",") + one.text();
    }
    return "[" + text + "]";
  }

 private:
  std::string names_;
  std::vector<std::string_view> objects_of_;  // by number of the function
  std::vector<const TreeNode*> first_of_;     // the same
  NumberList kinds_;
  std::map<std::pair<std::string_view, bool>, std::size_t> numbers_;
};

// The CPU time of each sample, if it is the same for all.
std::optional<std::int64_t> period_of(const CallTree& tree, const std::vector<SampleValue>& rest) {
  const SampleValue& all = tree.scope.all;
  if (!tree.scope.has_cpu_time || all.samples == 0) return std::nullopt;
  const std::int64_t period = all.cpu_ns / all.samples;
  const auto is_even = [period](const SampleValue& value) {
    std::int64_t product = 0;
    return !__builtin_mul_overflow(value.samples, period, &product) && product == value.cpu_ns;
  };
  bool all_even = is_even(all) && is_even(tree.scope.shown);
  for (std::size_t i = 0; i < tree.nodes.size() && all_even; ++i) {
    all_even = is_even(tree.nodes[i].self) && is_even(rest[i]);
  }
  if (!all_even || period == 0) return std::nullopt;
  return period;
}

std::string heading_of_page(const ViewScope& scope) {
  const std::string idle = idle_sum_text(scope);
  return scope_text(scope) + (idle.empty() ? "" : "; " + idle);
}

boost::json::object json_of_value(const SampleValue& value, bool has_cpu_time) {
  boost::json::object json{{"samples", value.samples}};
  if (has_cpu_time) json.emplace("cpu_ns", value.cpu_ns);
  return json;
}

}  // namespace

std::vector<SampleValue> left_out_below(const CallTree& tree) {
  std::vector<SampleValue> rest(tree.nodes.size());
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const TreeNode& node = tree.nodes[i];
    rest[i].samples += node.total.samples - node.self.samples;
    rest[i].cpu_ns += node.total.cpu_ns - node.self.cpu_ns;
    if (node.depth == 0) continue;
    rest[node.parent].samples -= node.total.samples;
    rest[node.parent].cpu_ns -= node.total.cpu_ns;
  }
  return rest;
}

std::string flame_json(const CallTree& tree, std::string_view title, const FunctionSums& sums) {
  const ViewScope& scope = tree.scope;
  const std::vector<SampleValue> rest = left_out_below(tree);
  const auto period = period_of(tree, rest);
  boost::json::object head{{"title", printable_utf8(title, kMaxPrintableBytes)},
                           {"scope", printable_utf8(heading_of_page(scope), kMaxPrintableBytes)},
                           {"all", json_of_value(scope.all, scope.has_cpu_time)},
                           {"shown", json_of_value(scope.shown, scope.has_cpu_time)}};
  const bool is_of_cpu = !is_of_blocks(scope.time_kind);
  if (scope.duration_ns > 0 && is_of_cpu) head.emplace("duration_ns", scope.duration_ns);
  if (!is_of_cpu) head.emplace("noun", scope.has_counts ? kind_names(scope.time_kind).noun : "");
  if (scope.idle != SampleValue()) head.emplace("idle", true);
  if (tree.left_out != 0) head.emplace("left_out", tree.left_out);
  if (period) head.emplace("period_ns", *period);

  FunctionList functions;
  std::array<NumberList, 6> columns;
  auto& [depths, numbers, self, below, self_cpu, below_cpu] = columns;
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const TreeNode& node = tree.nodes[i];
    depths.add(static_cast<std::int64_t>(node.depth));
    numbers.add(functions.add(node));
    self.add(node.self.samples);
    below.add(rest[i].samples);
    self_cpu.add(node.self.cpu_ns);
    below_cpu.add(rest[i].cpu_ns);
  }
  std::string text = for_script(json_text(head));
  text.pop_back();  // the brace
  text += "," + functions.text();
  if (tree.left_out != 0 && !sums.empty()) text += ",\"sums\":" + functions.text_of(sums);
  text += ",\"nodes\":{\"depth\":" + depths.text() + ",\"fn\":" + numbers.text() +
          ",\"self\":" + self.text() + ",\"rest\":" + below.text();
  if (scope.has_cpu_time && !period) {
    text += ",\"self_cpu\":" + self_cpu.text() + ",\"rest_cpu\":" + below_cpu.text();
  }
  return text + "}}";
}

}  // namespace profd
