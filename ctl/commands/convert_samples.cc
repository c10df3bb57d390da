#include "ctl/commands/convert_samples.h"

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <utility>

#include <boost/json/object.hpp>

#include "ctl/commands/shown_source.h"
#include "ctl/output/file.h"
#include "ctl/output/text.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/flame_html.h"
#include "ctl/views/flame_svg.h"
#include "ctl/views/samples_gperftools.h"
#include "ctl/views/samples_pprof.h"
#include "ctl/views/view_json.h"
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
};

class SampleConverter {
 public:
  SampleConverter(const SampleConversion& options, Client& client, const Console& console)
      : options_(options), client_(client), console_(console) {}

  Result<int> run() {
    auto file = OutputFile::open(options_.output, ExistingFile::kReplaced);
    if (!file) return file.error();
    const auto samples = read();
    if (!samples) return samples.error();
    const auto made = convert(*samples);
    if (!made) return made.error();
    file->write(made->bytes);
    if (auto written = file->commit(); !written) return written.error();
    print(*made, samples->sum());
    return kExitOk;
  }

 private:
  // All sources together.
  Result<Samples> read() {
    Samples sum;
    for (const std::string& name : options_.sources) {
      auto source = open_shown_source(client_, {.name = name, .range = {}, .target = {}}, console_);
      if (!source) return source.error();
      const bool is_first = title_.empty();
      title_ += (is_first ? "" : ", ") + source->title;
      if (is_first) {
        sum = std::move(source->samples);
        continue;
      }
      if (source->samples.event != sum.event || source->samples.has_cpu_time != sum.has_cpu_time) {
        return invalid_argument(
            name + " has samples of " + source->samples.event + ", and " +
                options_.sources.front() + " of " + sum.event,
            "convert files of different events, or with and without CPU time, separately");
      }
      add_samples(source->samples, sum);
    }
    return sum;
  }

  Result<ConvertedSamples> convert(const Samples& samples) {
    switch (options_.form) {
      case SampleForm::kPprof:
        return ConvertedSamples{encode_pprof_gzip(pprof_of_samples(samples))};
      case SampleForm::kFolded:
        return ConvertedSamples{folded_stacks(pprof_of_samples(samples))};
      case SampleForm::kSpeedscope:
        return ConvertedSamples{speedscope_json(pprof_of_samples(samples), printable(title_))};
      case SampleForm::kProf:
        return gperftools(samples);
      default:
        return tree(samples);
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
    CallTree tree = make_tree(Selection(samples, {}), {});
    if (tree.nodes.empty()) {
      return fail(ErrorCode::kNotFound, "no sample of " + title_ + " has a stack",
                  "'profctl report --by process' shows whose they are");
    }
    ConvertedSamples made;
    if (options_.form == SampleForm::kJson) made.bytes = to_json(tree) + "\n";
    if (options_.form == SampleForm::kHtml) made.bytes = flame_html(tree, title_);
    if (options_.form == SampleForm::kSvg) made.bytes = flame_svg(tree, title_);
    made.left_out = tree.left_out;
    return made;
  }

  void print(const ConvertedSamples& made, const SampleValue& sum) const {
    if (console_.json) {
      (options_.output == "-" ? console_.err : console_.out)
          << json_text(boost::json::object{{"output", options_.output},
                                           {"samples", sum.samples},
                                           {"left_out", made.left_out}})
          << "\n";
      return;
    }
    console_.err << "profctl: " << counted(static_cast<std::uint64_t>(sum.samples), "sample");
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
