#include "ctl/commands/convert_samples.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <utility>

#include <boost/json/object.hpp>

#include "ctl/commands/history_answers.h"
#include "ctl/commands/shown_source.h"
#include "ctl/commands/view_options.h"
#include "ctl/output/file.h"
#include "ctl/output/text.h"
#include "ctl/sources/target_labels.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/flame_html.h"
#include "ctl/views/flame_svg.h"
#include "ctl/views/samples_gperftools.h"
#include "ctl/views/samples_pprof.h"
#include "ctl/views/selected_samples.h"
#include "ctl/views/view_json.h"
#include "ctl/views/view_text.h"
#include "formats/base/errors.h"
#include "formats/base/json_text.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/stack_texts.h"

namespace profd {
namespace {

struct ConvertedSamples {
  std::string bytes;
  std::size_t left_out = 0;  // nodes of a picture
  SampleValue sum{};
  std::string size{};  // of the sum, for people
};

class SampleConverter {
 public:
  SampleConverter(const SampleConversion& options, Client& client, const Console& console)
      : options_(options), client_(client), console_(console) {}

  Result<int> run() {
    auto file = OutputFile::open(options_.output, ExistingFile::kReplaced);
    if (!file) return file.error();
    auto samples = read();
    if (!samples) return samples.error();
    const auto made = convert(std::move(*samples));
    if (!made) return made.error();
    file->write(made->bytes);
    if (auto written = file->commit(); !written) return written.error();
    print(*made);
    return kExitOk;
  }

 private:
  // All sources together.
  Result<Samples> read() {
    Samples sum;
    std::optional<Error> missing;
    const std::string* first = nullptr;  // the name of the source that `sum` began with
    for (const std::string& name : options_.sources) {
      auto opened = open(name, missing);
      if (!opened) return opened.error();
      std::optional<Source>& source = *opened;
      if (!source) continue;
      title_ += (first == nullptr ? "" : ", ") + source->title;
      if (first == nullptr) {
        first = &name;
        sum = std::move(source->samples);
        continue;
      }
      if (source->samples.event != sum.event || source->samples.has_cpu_time != sum.has_cpu_time ||
          source->samples.time_kind != sum.time_kind) {
        return invalid_argument(
            name + " has samples of " + source->samples.event + ", and " + *first + " of " +
                sum.event,
            "convert files of different events, or with and without CPU time, separately");
      }
      add_samples(source->samples, sum);
    }
    if (sum.rows().empty() && missing) return *missing;
    return sum;
  }

  // `missing` becomes the error of a source without a sample of the target, as another source may
  // have some. None: a time of the history without any, which a line on standard error says where
  // there are other sources.
  Result<std::optional<Source>> open(const std::string& name, std::optional<Error>& missing) {
    SourceRequest request{.name = name, .range = {}, .target = {}, .has_range_options = false};
    const bool is_history = range_of_source(request).has_value();
    if (is_history) request.target = options_.target;  // the daemon chooses, by cgroup too
    auto source = open_shown_source(client_, request, console_);
    if (!source) {
      const Error& error = source.error();
      if (request.target.empty() || error.code != ErrorCode::kNotFound) return error;
      missing = error;
      if (options_.sources.size() > 1) {
        console_.err << "profctl: " << printable(name + ": " + error.message) << "\n";
      }
      return std::optional<Source>();
    }
    if (!is_history && !options_.target.empty()) {
      const auto kept = keep_target(options_.target, source->samples);
      if (!kept && kept.error().code != ErrorCode::kNotFound) return kept.error();
      if (!kept) missing = with_hint_on_names(kept.error(), options_.target);
    }
    return std::optional<Source>(std::move(*source));
  }

  Result<ConvertedSamples> convert(Samples samples) {
    const bool is_tree = options_.form == SampleForm::kHtml || options_.form == SampleForm::kSvg ||
                         options_.form == SampleForm::kJson;
    if (is_tree) return tree(samples);
    if (!options_.target.empty() || !options_.patterns.empty()) {
      samples = selected_samples(Selection(samples, options_.patterns));
      if (samples.rows().empty()) return nothing_to_show(options_.patterns);
    }
    auto made = encode(samples);
    if (!made) return made;
    made->sum = samples.sum();
    made->size = size_text(scope_of(samples), made->sum);
    return made;
  }

  Result<ConvertedSamples> encode(const Samples& samples) {
    switch (options_.form) {
      case SampleForm::kPprof:
        return ConvertedSamples{encode_pprof_gzip(pprof_of_samples(samples))};
      case SampleForm::kFolded:
        return ConvertedSamples{folded_stacks(pprof_of_samples(samples))};
      case SampleForm::kSpeedscope:
        return ConvertedSamples{speedscope_json(pprof_of_samples(samples), printable(title_))};
      default:
        return gperftools(samples);
    }
  }

  Result<ConvertedSamples> gperftools(const Samples& samples) {
    if (options_.output == "-") {
      return invalid_argument(
          "a .prof file has its names in a second file, which - has no place for",
          "give a file with -o, or --format pprof, which has names itself");
    }
    ImagedProfile made = gperftools_of_samples(samples);
    const std::string path = options_.output + ".names.so";
    auto image = OutputFile::open(path, ExistingFile::kReplaced);
    if (!image) return image.error();
    image->write(made.image);
    if (auto written = image->commit(); !written) return written.error();
    made.profile.mappings.front().path = std::filesystem::absolute(path).string();
    return ConvertedSamples{encode_gperftools(made.profile)};
  }

  Result<ConvertedSamples> tree(const Samples& samples) {
    CallTree tree = make_tree(Selection(samples, options_.patterns), {});
    if (tree.nodes.empty()) return nothing_to_show(options_.patterns);
    ConvertedSamples made;
    made.sum = tree.scope.shown;
    made.size = size_text(tree.scope, made.sum);
    if (options_.form == SampleForm::kJson) made.bytes = to_json(tree) + "\n";
    if (options_.form == SampleForm::kHtml) made.bytes = flame_html(tree, title_);
    if (options_.form == SampleForm::kSvg) made.bytes = flame_svg(tree, title_);
    made.left_out = tree.left_out;
    return made;
  }

  void print(const ConvertedSamples& made) const {
    if (console_.json) {
      (options_.output == "-" ? console_.err : console_.out)
          << json_text(boost::json::object{{"output", options_.output},
                                           {"samples", made.sum.samples},
                                           {"left_out", made.left_out}})
          << "\n";
      return;
    }
    console_.err << "profctl: " << made.size;
    if (made.left_out != 0)
      console_.err << "; " << counted(made.left_out, "smaller node") << " left out";
    console_.err << "\n";
  }

  const SampleConversion& options_;
  Client& client_;
  const Console& console_;
  std::string title_;
};

}  // namespace

Result<int> convert_samples(const SampleConversion& options, Client& client,
                            const Console& console) {
  return SampleConverter(options, client, console).run();
}

}  // namespace profd
