// The samples that --focus, --ignore and --hide leave, of stacks made by hand: what stays is as it
// was, and nothing else is in them.

#include "ctl/views/selected_samples.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/views/samples.h"
#include "ctl/views/selection.h"
#include "formats/profile/sample_times.h"

namespace profd {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Four samples of two processes:
//
//     nginx  main - serve - (copy, inlined into send)     5
//     nginx  main - serve - (parse)                       7
//     cc1    main - (fold, inlined into compile) - alloc  11
//     cc1    (page_fault of the kernel)                   13
class SelectedSamplesTest : public testing::Test {
 protected:
  SelectedSamplesTest() {
    const std::uint32_t start = add({frame("main", "/bin/x", 1)});
    const std::uint32_t serve = add({frame("serve", "/bin/nginx", 2)});
    const std::uint32_t send =
        add({frame("copy", "/bin/nginx", 3), frame("send", "/bin/nginx", 4)});
    const std::uint32_t parse = add({frame("parse", "/bin/nginx", 5)});
    const std::uint32_t compile =
        add({frame("fold", "/bin/cc1", 6), frame("compile", "/bin/cc1", 7)});
    const std::uint32_t alloc = add({frame("alloc", "/lib/libc.so", 8)});
    const std::uint32_t fault =
        add({frame("page_fault", "[kernel.kallsyms]", 0, FrameKind::kKernel)});
    const std::uint32_t nginx = labels("nginx", 10);
    const std::uint32_t cc1 = labels("cc1", 20);
    samples_.event = "cpu";
    samples_.has_cpu_time = true;
    samples_.duration_ns = 1'000'000'000;
    samples_.time_ns = 77;
    samples_.losses = SampleLosses{.written = 99};
    add_row({send, serve, start}, nginx, 5);
    add_row({parse, serve, start}, nginx, 7);
    add_row({alloc, compile, start}, cc1, 11);
    add_row({fault}, cc1, 13);
  }

  SampledFrame frame(const std::string& name, const std::string& object, std::uint32_t line,
                     FrameKind kind = FrameKind::kNative) {
    const std::uint32_t text = samples_.add_text(name);
    const std::uint32_t file = samples_.add_text(name + ".c");
    return {.function = samples_.add_function(
                {.name = text, .file = file, .object = samples_.add_text(object), .kind = kind}),
            .line = line};
  }
  std::uint32_t add(const std::vector<SampledFrame>& frames) {
    return samples_.add_location(frames);
  }
  std::uint32_t labels(const std::string& comm, std::uint32_t pid) {
    SampleLabels set;
    set.pid = pid;
    set.tid = pid + 1;
    set.comm = samples_.add_text(comm);
    set.unit = samples_.add_text(comm + ".service");
    set.container = samples_.add_text("c-" + comm);
    set.user = samples_.add_text("u-" + comm);
    set.runtime = samples_.add_text("r-" + comm);
    set.thread = samples_.add_text("t-" + comm);
    return samples_.add_labels(set);
  }
  void add_row(const std::vector<std::uint32_t>& stack, std::uint32_t set, std::int64_t count) {
    samples_.add(stack, set, {.samples = count, .cpu_ns = count * 100});
  }

  // The copy, which needs nothing of the original any more.
  Samples selected(const SelectionPatterns& patterns) {
    return selected_samples(Selection(samples_, patterns));
  }

  Samples samples_;
};

std::string text_of_frame(const Samples& samples, const SampledFrame& frame) {
  const SampledFunction& function = samples.functions()[frame.function];
  return std::string(samples.text(function.name)) + "@" + std::string(samples.text(function.file)) +
         "@" + std::string(samples.text(function.object)) + ":" + std::to_string(frame.line) +
         (function.kind == FrameKind::kKernel ? "[k]" : "");
}

// Each sample: "nginx 10 5/500: [copy@copy.c@/bin/nginx:3 send@...] [main@...]", the leaf first,
// with a pair of brackets for each location.
std::vector<std::string> text_of_rows(const Samples& samples) {
  std::vector<std::string> lines;
  std::vector<std::uint32_t> stack;
  for (const Samples::Row& row : samples.rows()) {
    const SampleLabels& set = samples.labels()[row.labels];
    std::string line = std::string(samples.text(set.comm)) + " " + std::to_string(set.pid) + " " +
                       std::to_string(row.value.samples) + "/" + std::to_string(row.value.cpu_ns) +
                       ":";
    samples.read_locations(row, stack);
    for (const std::uint32_t location : stack) {
      std::string inside;
      for (const std::uint32_t number : samples.frames_of_location(location)) {
        inside += (inside.empty() ? "" : " ") + text_of_frame(samples, samples.frames()[number]);
      }
      line += " [" + inside + "]";
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> texts_of(const Samples& samples) {
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < samples.text_count(); ++i) texts.emplace_back(samples.text(i));
  return texts;
}

constexpr const char* kSend =
    "nginx 10 5/500: [copy@copy.c@/bin/nginx:3 send@send.c@/bin/nginx:4] "
    "[serve@serve.c@/bin/nginx:2] [main@main.c@/bin/x:1]";
constexpr const char* kParse =
    "nginx 10 7/700: [parse@parse.c@/bin/nginx:5] [serve@serve.c@/bin/nginx:2] "
    "[main@main.c@/bin/x:1]";
constexpr const char* kCompile =
    "cc1 20 11/1100: [alloc@alloc.c@/lib/libc.so:8] "
    "[fold@fold.c@/bin/cc1:6 compile@compile.c@/bin/cc1:7] [main@main.c@/bin/x:1]";
constexpr const char* kFault = "cc1 20 13/1300: [page_fault@page_fault.c@[kernel.kallsyms]:0[k]]";

TEST_F(SelectedSamplesTest, WithoutFiltersAllStaysAsItWas) {
  EXPECT_THAT(text_of_rows(samples_), ElementsAre(kSend, kParse, kCompile, kFault));
  const Samples copy = selected({});
  EXPECT_THAT(text_of_rows(copy), ElementsAre(kSend, kParse, kCompile, kFault));
  EXPECT_EQ(copy.event, "cpu");
  EXPECT_TRUE(copy.has_cpu_time);
  EXPECT_EQ(copy.duration_ns, 1'000'000'000);
  EXPECT_EQ(copy.time_ns, 77);
  ASSERT_TRUE(copy.losses);
  EXPECT_EQ(copy.losses->written, 99U);
  EXPECT_FALSE(copy.times());
}

TEST_F(SelectedSamplesTest, EachLabelStaysWithItsSample) {
  const Samples copy = selected({.focus = {"compile"}, .ignore = {}, .hide = {}});
  ASSERT_EQ(copy.rows().size(), 1U);
  const SampleLabels& set = copy.labels()[copy.rows()[0].labels];
  EXPECT_EQ(set.pid, 20U);
  EXPECT_EQ(set.tid, 21U);
  EXPECT_EQ(copy.text(set.comm), "cc1");
  EXPECT_EQ(copy.text(set.unit), "cc1.service");
  EXPECT_EQ(copy.text(set.container), "c-cc1");
  EXPECT_EQ(copy.text(set.user), "u-cc1");
  EXPECT_EQ(copy.text(set.runtime), "r-cc1");
  EXPECT_EQ(copy.text(set.thread), "t-cc1");
}

TEST_F(SelectedSamplesTest, FocusAndIgnoreRemoveWholeSamples) {
  EXPECT_THAT(text_of_rows(selected({.focus = {"^serve$"}, .ignore = {}, .hide = {}})),
              ElementsAre(kSend, kParse));
  EXPECT_THAT(text_of_rows(selected({.focus = {}, .ignore = {"libc"}, .hide = {}})),
              ElementsAre(kSend, kParse, kFault));
  EXPECT_THAT(text_of_rows(selected({.focus = {"main"}, .ignore = {"copy", "fold"}, .hide = {}})),
              ElementsAre(kParse));
  EXPECT_THAT(text_of_rows(selected({.focus = {"nosuch"}, .ignore = {}, .hide = {}})), IsEmpty());
}

TEST_F(SelectedSamplesTest, HideRemovesFramesAndSamplesThatLoseAll) {
  EXPECT_THAT(text_of_rows(selected({.focus = {}, .ignore = {}, .hide = {"^main$", "kallsyms"}})),
              ElementsAre("nginx 10 5/500: [copy@copy.c@/bin/nginx:3 send@send.c@/bin/nginx:4] "
                          "[serve@serve.c@/bin/nginx:2]",
                          "nginx 10 7/700: [parse@parse.c@/bin/nginx:5] "
                          "[serve@serve.c@/bin/nginx:2]",
                          "cc1 20 11/1100: [alloc@alloc.c@/lib/libc.so:8] "
                          "[fold@fold.c@/bin/cc1:6 compile@compile.c@/bin/cc1:7]"));
}

TEST_F(SelectedSamplesTest, AnInlinedFunctionIsHiddenAlone) {
  EXPECT_THAT(
      text_of_rows(selected({.focus = {}, .ignore = {"page_fault"}, .hide = {"copy", "compile"}})),
      ElementsAre("nginx 10 5/500: [send@send.c@/bin/nginx:4] [serve@serve.c@/bin/nginx:2] "
                  "[main@main.c@/bin/x:1]",
                  kParse,
                  "cc1 20 11/1100: [alloc@alloc.c@/lib/libc.so:8] [fold@fold.c@/bin/cc1:6] "
                  "[main@main.c@/bin/x:1]"));
}

// A file of the copy says nothing of what was left out.
TEST_F(SelectedSamplesTest, NamesOfOtherSamplesAreNotInIt) {
  const Samples copy = selected({.focus = {}, .ignore = {"cc1"}, .hide = {"copy"}});
  const std::vector<std::string> texts = texts_of(copy);
  EXPECT_THAT(texts, Contains("serve"));
  EXPECT_THAT(texts, Contains("nginx.service"));
  for (const char* const gone : {"copy", "copy.c", "compile", "alloc", "/bin/cc1"}) {
    EXPECT_THAT(texts, Not(Contains(gone)));
  }
  EXPECT_EQ(copy.functions().size(), 5U);  // main, serve, send, parse, page_fault
  const Samples of_nginx = selected({.focus = {"serve"}, .ignore = {}, .hide = {}});
  for (const std::string& text : texts_of(of_nginx)) EXPECT_THAT(text, Not(HasSubstr("cc1")));
  EXPECT_EQ(of_nginx.labels().size(), 1U);
}

TEST_F(SelectedSamplesTest, TimesStayWithTheirSamples) {
  const std::vector<SampleTime> times = {{.sample = 0, .tick = 3, .count = 2},
                                         {.sample = 1, .tick = 9, .count = 7},
                                         {.sample = 2, .tick = 1, .count = 1},
                                         {.sample = 3, .tick = 4, .count = 13}};
  ASSERT_TRUE(samples_.set_times({.until = 50, .entries = times}));
  const Samples copy = selected({.focus = {}, .ignore = {"parse"}, .hide = {}});
  ASSERT_TRUE(copy.times());
  EXPECT_EQ(copy.times()->until, 50U);
  EXPECT_THAT(copy.times()->entries, ElementsAre(SampleTime{.sample = 0, .tick = 3, .count = 2},
                                                 SampleTime{.sample = 1, .tick = 1, .count = 1},
                                                 SampleTime{.sample = 2, .tick = 4, .count = 13}));
}

TEST_F(SelectedSamplesTest, TheCopyOutlivesTheOriginal) {
  const Samples copy = selected({.focus = {"send"}, .ignore = {}, .hide = {}});
  samples_ = Samples();
  EXPECT_THAT(text_of_rows(copy), ElementsAre(kSend));
}

// What profctl web --focus shows of a page's own focus: the samples that have both.
TEST_F(SelectedSamplesTest, ASelectionIsNarrowedByAnother) {
  const SelectionPatterns source{.focus = {"main"}, .ignore = {"parse"}, .hide = {"copy"}};
  SelectionPatterns request{.focus = {}, .ignore = {}, .hide = {}};
  request.focus_names = {"serve"};
  request.hide_names = {"main"};
  EXPECT_THAT(text_of_rows(selected(narrowed(source, request))),
              ElementsAre("nginx 10 5/500: [send@send.c@/bin/nginx:4] "
                          "[serve@serve.c@/bin/nginx:2]"));
  // Either one alone is not enough.
  request = {.focus = {"page_fault"}, .ignore = {}, .hide = {}};
  EXPECT_THAT(text_of_rows(selected(narrowed(source, request))), IsEmpty());
  EXPECT_FALSE(shows_any(Selection(samples_, narrowed(source, request))));
  request = {.focus = {"nosuch"}, .ignore = {}, .hide = {}};
  EXPECT_FALSE(shows_any(Selection(samples_, narrowed(source, request))));
  EXPECT_TRUE(shows_any(Selection(samples_, source)));
  EXPECT_TRUE(shows_any(Selection(samples_, {})));
}

TEST_F(SelectedSamplesTest, PatternsAreDescribedAsOptions) {
  EXPECT_EQ(describe(SelectionPatterns()), "");
  EXPECT_EQ(describe(SelectionPatterns{.focus = {"a", "b"}, .ignore = {"c"}, .hide = {"d e"}}),
            "--focus a --focus b --ignore c --hide d e");
}

}  // namespace
}  // namespace profd
