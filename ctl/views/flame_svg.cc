#include "ctl/views/flame_svg.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "ctl/output/terminal.h"
#include "ctl/output/text.h"
#include "ctl/views/view_text.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 10;
constexpr std::size_t kRowHeight = 17;
constexpr std::size_t kHeadHeight = 52;
constexpr double kLetterWidth = 7.3;  // of 12 px monospace, whichever font the viewer has
constexpr double kNarrowest = 0.25;
constexpr std::size_t kMaxSvgNodes = 20'000;

constexpr std::string_view kStyle =
    "text{font:12px ui-monospace,DejaVu Sans Mono,monospace;fill:#10151a}"
    ".h{font:14px sans-serif}.b{fill:#fff}.n{fill:#7cbcec}.k{fill:#f0a830}.r{fill:#3fb68b}"
    ".i{fill:#a9a4e4}.l,.a{fill:#c9d0d8}.w{fill:#d79ec0}.q{fill:#f1e36a}"
    "rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#10151a;stroke-width:2}";

std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : printable_utf8(name, kMaxPrintableBytes)) {
    switch (c) {
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '&':
        text += "&amp;";
        break;
      case '"':
        text += "&quot;";
        break;
      default:
        text += c;
    }
  }
  return text;
}

const char* class_of(const TreeNode& node) {
  if (node.is_label) return "l";
  if (node.group.kind == FrameKind::kKernel) return "k";
  if (node.group.kind == FrameKind::kInterpreted) return "i";
  return node.group.kind == FrameKind::kRuntime ? "r" : "n";
}

// The frames that are outermost in a picture of wall-clock time, and the class of all below.
struct StateFrame {
  std::string_view name;
  const char* kind;  // null: each frame by the kind of its code
};
constexpr std::array kStateFrames = {StateFrame{kOnCpuFrame, nullptr},
                                     StateFrame{kBlockedFrame, "w"},
                                     StateFrame{kRunnableFrame, "q"}};

// By node: the class of its state. Null: the kind of its code counts.
std::vector<const char*> state_classes(const CallTree& tree) {
  std::vector<const char*> classes(tree.nodes.size(), nullptr);
  if (tree.scope.time_kind != TimeKind::kWall) return classes;
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const TreeNode& node = tree.nodes[i];
    const bool is_outermost = node.depth == 0 || tree.nodes[node.parent].is_label;
    if (!is_outermost) {
      classes[i] = classes[node.parent];
    } else if (!node.is_label) {
      const auto* const known = std::ranges::find(kStateFrames, node.group.name, &StateFrame::name);
      if (known != kStateFrames.end()) classes[i] = known->kind;
    }
  }
  return classes;
}

std::string number_text(double number) { return decimal_text(number, 2); }

class SvgPicture {
 public:
  explicit SvgPicture(const CallTree& tree) : tree_(tree), scope_(tree.scope) {
    for (const TreeNode& node : tree.nodes) rows_ = std::max(rows_, node.depth + 2);
    scale_ = (kWidth - 2 * kMargin) / std::max(width_value(scope_.shown), 1.0);
  }

  std::string text(std::string_view title) {
    const std::size_t height = kHeadHeight + (rows_ + 1) * kRowHeight;
    text_ =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\""
        " width=\"1200\" height=\"" +
        std::to_string(height) + "\" viewBox=\"0 0 1200 " + std::to_string(height) +
        "\">\n<style>" + std::string(kStyle) +
        "</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n";
    const std::string idle = idle_text(scope_);
    add_heading(20, std::string(title) + (idle.empty() ? "" : "; " + idle));
    add_heading(40, scope_text(scope_) + kinds_text());
    add_box("a", "all", 0, kMargin, scope_.shown, {});
    add_nodes();
    return text_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double width_value(const SampleValue& value) const {
    return static_cast<double>(scope_.has_cpu_time ? value.cpu_ns : value.samples);
  }

  [[nodiscard]] std::string kinds_text() const {
    std::string text = "; blue: native, orange: kernel, green: runtime, violet: interpreted";
    if (scope_.time_kind == TimeKind::kWall) text += ", rose: blocked, yellow: runnable";
    if (tree_.left_out != 0) text += "; " + counted(tree_.left_out, "smaller node") + " left out";
    return text;
  }

  void add_heading(int y, const std::string& heading) {
    text_ += "<text class=\"h\" x=\"10\" y=\"" + std::to_string(y) + "\">" +
             escaped(end_that_fits(printable_utf8(heading, kMaxPrintableBytes), kHeadingLetters)) +
             "</text>\n";
  }

  void add_nodes() {
    std::vector<double> next(rows_ + 1, kMargin);  // by depth: where the next box begins
    const std::vector<const char*> states = state_classes(tree_);
    for (std::size_t i = 0; i < tree_.nodes.size(); ++i) {
      const TreeNode& node = tree_.nodes[i];
      const double x = next[node.depth];
      next[node.depth] += width_value(node.total) * scale_;
      next[node.depth + 1] = x;
      const char* const kind = states[i] == nullptr ? class_of(node) : states[i];
      add_box(kind, node.group.name, node.depth + 1, x, node.total, node.self);
    }
  }

  void add_box(const char* kind, std::string_view name, std::size_t row, double x,
               const SampleValue& total, const SampleValue& self) {
    const double width = width_value(total) * scale_;
    const std::size_t y = kHeadHeight + (rows_ - 1 - row) * kRowHeight;
    text_ += "<g><title>" + escaped(name) + " - " + numbers_text(total);
    if (self.samples != 0) text_ += ", self " + numbers_text(self);
    text_ += std::string("</title><rect class=\"") + kind + "\" x=\"" + number_text(x) + "\" y=\"" +
             std::to_string(y) + "\" width=\"" + number_text(width) + "\" height=\"" +
             std::to_string(kRowHeight - 1) + "\"/>";
    const std::string shown = fitting(name, width);
    if (!shown.empty()) {
      text_ += "<text x=\"" + number_text(x + 3) + "\" y=\"" + std::to_string(y + 12) + "\">" +
               escaped(shown) + "</text>";
    }
    text_ += "</g>\n";
  }

  [[nodiscard]] std::string numbers_text(const SampleValue& value) const {
    std::string text = scope_.has_counts ? count_text(scope_, value) : "";
    if (scope_.has_cpu_time) text += (text.empty() ? "" : ", ") + cpu_time_text(value.cpu_ns);
    return percent_text(scope_.share_of(value)) + " (" + text + ")";
  }

  // Some letters of other scripts take two columns.
  static std::string fitting(std::string_view name, double width) {
    constexpr double kFewestLetters = 3;
    const std::string text = printable_utf8(name, kMaxPrintableBytes);
    const bool is_ascii = std::ranges::all_of(text, [](char c) { return c >= 0; });
    const double letters = (width - 6) / (is_ascii ? kLetterWidth : 2 * kLetterWidth);
    if (letters < kFewestLetters) return {};
    return end_that_fits(text, static_cast<std::size_t>(letters));
  }

  static constexpr std::size_t kHeadingLetters = 150;

  const CallTree& tree_;
  const ViewScope& scope_;
  std::size_t rows_ = 1;
  double scale_ = 1;
  std::string text_;
};

}  // namespace

std::string flame_svg(CallTree& tree, std::string_view title) {
  const double shown = tree.scope.share_of(tree.scope.shown);
  prune(tree, kMaxSvgNodes, shown * kNarrowest / (kWidth - 2 * kMargin));
  return SvgPicture(tree).text(title);
}

}  // namespace profd
