// Draws a flame graph of the samples of a source: an HTML file to look around in, or a picture.

#include <ostream>
#include <string>

#include <boost/json/object.hpp>

#include "ctl/commands/sample_form.h"
#include "ctl/commands/shown_source.h"
#include "ctl/commands/subcommand.h"
#include "ctl/commands/view_options.h"
#include "ctl/output/file.h"
#include "ctl/output/text.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/flame_html.h"
#include "ctl/views/flame_svg.h"
#include "ctl/views/view_text.h"
#include "formats/base/errors.h"
#include "formats/base/json_text.h"

namespace profd {
namespace {

class DrawFlame final : public Subcommand {
 public:
  DrawFlame() : Subcommand("flame", "Draw a flame graph: one HTML file, or an SVG picture") {}

  void add_options(OptionList& list) override {
    add_shown_source(list, request_);
    list.option("-o,--output", "FILE", "x.html or x.svg (required); - is standard output, as HTML",
                Reader::path(output_));
    list.option("--by", "KEYS",
                "process, command, unit, container, user, thread, runtime, state or wait, above "
                "the functions; or two: unit,process",
                {view_.by, parse_group_keys});
    add_stack_options(list, view_);
    list.rule([this] { return check(); });
  }

  Result<int> run(Client& client, const Console& console) override {
    auto file = OutputFile::open(output_, ExistingFile::kRefused);
    if (!file) return file.error();
    auto source = open_shown_source(client, request_, console);
    if (!source) return source.error();
    leave_out_idle(view_, source->samples);
    TreeOptions options{.names = view_.names};
    if (!is_of_frames(view_.by.front())) options.by = view_.by;
    CallTree tree = make_tree(Selection(source->samples, view_.patterns), options);
    if (tree.nodes.empty()) return nothing_to_show(view_.patterns);
    file->write(is_picture_ ? flame_svg(tree, source->title) : flame_html(tree, source->title));
    if (auto written = file->commit(); !written) return written.error();
    print_summary(tree, console);
    return kExitOk;
  }

 private:
  Result<void> check() {
    if (output_.empty()) {
      return invalid_argument("no output is given", "name a file: -o x.html, or -o x.svg");
    }
    const auto form = form_of_extension(output_);
    is_picture_ = form == SampleForm::kSvg;
    if (output_ != "-" && form != SampleForm::kHtml && form != SampleForm::kSvg) {
      return invalid_argument(
          "a flame graph is an .html or .svg file, and not " + printable(output_),
          "'profctl convert' writes .pb.gz, .folded, .speedscope.json and other forms");
    }
    return check_tree_keys(view_.by);
  }

  void print_summary(const CallTree& tree, const Console& console) const {
    std::ostream& out = output_ == "-" ? console.err : console.out;
    if (console.json) {
      out << json_text(boost::json::object{{"output", output_},
                                           {"samples", tree.scope.shown.samples},
                                           {"nodes", tree.nodes.size()},
                                           {"left_out", tree.left_out}})
          << "\n";
      return;
    }
    const bool is_all = tree.left_out == 0 && tree.scope.idle == SampleValue();
    if (output_ == "-" && is_all) return;
    out << (output_ == "-" ? "profctl: " : printable(output_) + ": ")
        << size_text(tree.scope, tree.scope.shown) << ", " << counted(tree.nodes.size(), "node");
    if (tree.left_out != 0) {
      out << "; " << counted(tree.left_out, "smaller node") << " left out, --focus shows more";
    }
    if (const std::string idle = idle_text(tree.scope); !idle.empty()) out << "; " << idle;
    out << "\n";
  }

  SourceRequest request_;
  ViewOptions view_;
  std::string output_;
  bool is_picture_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_flame() { return std::make_unique<DrawFlame>(); }

}  // namespace profd
