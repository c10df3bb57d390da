#include "ctl/web/web_views.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/client/caller_rights.h"
#include "ctl/page/page_files.h"
#include "ctl/sources/target_labels.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/diff.h"
#include "ctl/views/flame_json.h"
#include "ctl/views/report.h"
#include "ctl/views/selected_samples.h"
#include "ctl/views/view_json.h"
#include "ctl/web/matched_samples.h"
#include "ctl/web/narrowed_target.h"
#include "ctl/web/picture_worth.h"
#include "ctl/web/process_list.h"
#include "ctl/web/selected_pprof.h"
#include "ctl/web/source_text.h"
#include "ctl/web/timeline.h"
#include "ctl/web/web_export.h"
#include "ctl/web/zoomed_tree.h"
#include "formats/base/errors.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr std::size_t kMostNodes = 10'000;
constexpr std::size_t kMostTableRows = 1'000;
constexpr std::uint64_t kMostSeconds = 3600;
constexpr std::uint64_t kUsualSeconds = 30;  // as Go has it
constexpr std::chrono::seconds kTimeToStop{30};

constexpr std::string_view kPage = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>profd</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<link rel="stylesheet" href="web.css">
</head>
<body>
<noscript>This page needs JavaScript. 'profctl report' shows the same in a terminal.</noscript>
<script type="module" src="web.js"></script>
</body>
</html>
)";

void make_printable(Group& group) {
  group.name = printable_utf8(group.name, kMaxPrintableBytes);
  group.object = printable_utf8(group.object, kMaxPrintableBytes);
}

void make_printable(std::vector<ReportRow>& rows) {
  for (ReportRow& row : rows) {
    make_printable(row.group);
    make_printable(row.rows);
  }
}

// The page calls each kind of time "cpu_ns", and shows percent of one CPU where there are some.
void name_times_for_page(ViewScope& scope) {
  if (is_of_blocks(scope.time_kind)) scope.duration_ns = 0;
  scope.time_kind = TimeKind::kCpu;
  scope.has_counts = true;
}

}  // namespace

// The samples of a request, and what of them it wants.
struct WebViews::Shown {
  ViewFields fields;
  std::shared_ptr<const Source> source;

  [[nodiscard]] Selection selection() const { return {source->samples, fields.patterns}; }
};

Result<WebViews::Shown> WebViews::open(const WebRequest& request) {
  auto fields = read_view_fields(request, samples_.source().range);
  if (!fields) return fields.error();
  fields->patterns = narrowed(patterns_, std::move(fields->patterns));
  auto source = samples_.get(fields->range, fields->target, fields->has_idle);
  if (!source) return source.error();
  return Shown{.fields = std::move(*fields), .source = std::move(*source)};
}

Result<void> WebViews::check() {
  const SourceRequest& of = samples_.source();
  const bool is_whole = of.range == TimeRange();
  if (samples_.is_history() && is_whole && !of.target.empty()) return check_whole_history();
  if (samples_.is_history() && (is_whole || (of.target.empty() && patterns_.empty()))) {
    const auto status = client_.status();
    return status ? Result<void>() : Result<void>(status.error());
  }
  const auto opened = samples_.get(of.range, {});
  if (!opened) return opened.error();
  if (patterns_.empty() || shows_any(Selection((*opened)->samples, patterns_))) return {};
  return nothing_is_left();
}

// Its samples may be those of a month, of which the daemon reads the sums alone.
Result<void> WebViews::check_whole_history() {
  const TargetRequest& target = samples_.source().target;
  const auto history = client_.history(
      {.range = {}, .target = target, .limit = 1, .sum = true, .event = samples_.source().event});
  if (!history) return history.error();
  const bool has_matched = std::ranges::any_of(
      history->windows, [](const WindowShares& window) { return window.samples != 0; });
  if (has_matched) return {};
  return no_sample_of(target);
}

Result<std::string> WebViews::source(const WebRequest& /*request*/) {
  const SourceRequest& of = samples_.source();
  const std::string history = asks_for_blocks(of.event) ? "History off the CPU" : "History";
  std::string title = samples_.is_history() ? history : of.name;
  if (!of.target.empty()) title += " of " + describe(of.target);
  if (!patterns_.empty()) title += ", " + describe(patterns_);
  const boost::json::object json{{"title", printable_utf8(title, kMaxPrintableBytes)},
                                 {"kind", samples_.is_history() ? "history" : "file"}};
  return json_text(json);
}

Result<std::string> WebViews::timeline(const WebRequest& request) {
  auto target = read_target(request);
  if (!target) return target.error();
  if (!samples_.is_history()) {
    const auto whole = samples_.get({}, *target);
    if (!whole) return whole.error();
    const Samples& samples = (*whole)->samples;
    if (patterns_.empty()) return timeline_json(samples);
    return timeline_json(selected_samples(Selection(samples, patterns_)));
  }
  const NarrowedTarget of = narrowed_target(samples_.source().target, std::move(*target));
  const SourceRequest& source = samples_.source();
  if (of.of_labels.empty()) {
    return timeline_json(client_, of.of_daemon, source.range, source.event);
  }
  return invalid_argument("CPU use over time is not known for " + describe(of.of_labels) +
                              " within " + describe(of.of_daemon),
                          "leave out one of both targets");
}

Result<std::string> WebViews::list(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return shown.error();
  if (shown->fields.patterns.empty()) return process_list_json(shown->source->samples);
  return process_list_json(selected_samples(shown->selection()));
}

Result<std::string> WebViews::worth(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return shown.error();
  std::optional<StatusInfo> status;
  if (shown->source->summary) {
    auto asked = client_.status();
    if (asked) status = std::move(*asked);
  }
  const bool has_lost = !samples_.is_history() || (knows_lost_samples(samples_.source().target) &&
                                                   knows_lost_samples(shown->fields.target));
  return picture_worth_json(*shown->source, has_lost, status);
}

Result<std::string> WebViews::flame(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return shown.error();
  TreeOptions options{.names = shown->fields.names};
  if (!is_of_frames(shown->fields.by.front())) options.by = shown->fields.by;
  if (const std::string around(request.field("around")); !around.empty()) {
    options.direction =
        request.field("direction") == "callers" ? TreeDirection::kCallers : TreeDirection::kCallees;
    options.functions = functions_shown_as(shown->source->samples, {around});
  }
  CallTree tree = make_tree(shown->selection(), options);
  if (tree.nodes.empty()) return nothing_is_left();
  prune_around(tree, request.field("zoom"), kMostNodes);
  return flame_json(tree, shown->source->title);
}

Result<std::string> WebViews::search(const WebRequest& request) {
  const std::string pattern(request.field("search"));
  // As a regular expression, an empty one matches everything.
  if (pattern.empty()) return invalid_argument("no search is given", "add search=REGEX");
  if (auto checked = check_pattern_of_names(pattern); !checked) return checked.error();
  const auto shown = open(request);
  if (!shown) return shown.error();
  const SampleValue matched =
      matched_samples(shown->selection(), shown->fields.names, pattern, request.field("zoom"));
  boost::json::object value{{"samples", matched.samples}, {"cpu_ns", matched.cpu_ns}};
  return json_text(boost::json::object{{"matched", std::move(value)}});
}

Result<std::string> WebViews::table(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return shown.error();
  Report report = make_report(shown->selection(), shown->fields.by, shown->fields.names);
  if (report.rows.empty()) return nothing_is_left();
  make_printable(report.rows);
  name_times_for_page(report.scope);
  return to_json(report, kMostTableRows);
}

Result<std::string> WebViews::diff(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return shown.error();
  const auto range = read_range(request, samples_.source().range, "base_");
  if (!range) return range.error();
  const auto base = samples_.get(*range, shown->fields.target, shown->fields.has_idle);
  if (!base) return base.error();
  const ViewFields& fields = shown->fields;
  const Selection base_selection((*base)->samples, fields.patterns);
  const Report before = make_report(base_selection, fields.by, fields.names);
  const Report now = make_report(shown->selection(), fields.by, fields.names);
  const auto measure = request.field("per") == "cpu" ? DiffMeasure::kCpu : DiffMeasure::kShare;
  auto diff = make_diff(before, now, measure);
  if (!diff) return diff.error();
  for (DiffRow& row : diff->rows) make_printable(row.group);
  name_times_for_page(diff->base);
  name_times_for_page(diff->now);
  return to_json(*diff, kMostTableRows, 0);
}

Result<std::string> WebViews::lines(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return shown.error();
  const auto functions =
      functions_shown_as(shown->source->samples, {std::string(request.field("around"))});
  return source_text_json(shown->selection(), functions);
}

WebReply WebViews::download(const WebRequest& request) {
  const auto shown = open(request);
  if (!shown) return reply_of(shown.error());
  return export_samples(*shown->source, request.field("form"), shown->fields.patterns,
                        shown->fields.names);
}

WebReply WebViews::start_profile(const WebRequest& request) {
  const auto seconds = request.number("seconds", kUsualSeconds, kMostSeconds);
  if (!seconds) return reply_of(seconds.error());
  auto target = read_target(request);
  if (!target) return reply_of(target.error());
  NarrowedTarget narrowed_to = narrowed_target(samples_.source().target, std::move(*target));
  if (auto checked = check_target_of_labels(narrowed_to.of_labels); !checked) {
    return reply_of(checked.error());
  }
  auto asked = read_patterns(request);
  if (!asked) return reply_of(asked.error());
  SelectionPatterns patterns = narrowed(patterns_, std::move(*asked));
  StartRequest start;
  start.target = std::move(narrowed_to.of_daemon);
  const bool has_target = !start.target.empty();
  if (!has_target) start.target.all = true;
  const std::chrono::milliseconds length =
      std::chrono::seconds(std::max<std::uint64_t>(*seconds, 1));
  // Should profctl end meanwhile, the session ends too.
  start.lease_ms = static_cast<std::uint64_t>((length + kTimeToStop).count());
  auto session = client_.start(start);
  if (!session && !has_target && session.error().code == ErrorCode::kPermissionDenied) {
    start.target = TargetRequest();
    start.target.uids = {::getuid()};
    session = client_.start(start);
  }
  if (!session) return reply_of(session.error());
  auto stop = [this, id = std::move(*session), of = std::move(narrowed_to.of_labels),
               filter = std::move(patterns)] { return stop_profile(id, of, filter); };
  return {.then = std::move(stop), .wait = length};
}

WebReply WebViews::stop_profile(const std::string& session, const TargetRequest& of_labels,
                                const SelectionPatterns& patterns) {
  const auto result = client_.stop(session);
  if (!result) return reply_of(result.error());
  auto bytes = result->named_profile
                   ? client_.fetch(result->result, *result->named_profile)
                   : Result<std::string>(fail(ErrorCode::kUnsupported, "the profile has no names"));
  (void)client_.remove(result->result);
  const bool is_whole = of_labels.empty() && patterns.empty();
  if (bytes && !is_whole) bytes = selected_pprof(*bytes, of_labels, patterns);
  if (!bytes) return reply_of(bytes.error());
  return {
      .type = "application/octet-stream", .body = std::move(*bytes), .file_name = "profile.pb.gz"};
}

WebReply WebViews::page_file(const std::string& name) const {
  const auto files = page_files();
  const auto file = std::ranges::find(files, std::string_view(name), &PageFile::name);
  if (file == files.end()) {
    return reply_of(fail(ErrorCode::kNotFound, "there is no " + printable_utf8(name, 64)));
  }
  const std::string type =
      name.ends_with(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
  if (page_folder_.empty()) return {.type = type, .body = std::string(file->bytes)};
  auto bytes = read_whole_file(page_folder_ + "/" + name);
  if (!bytes) return reply_of(bytes.error());
  return {.type = type, .body = std::move(*bytes)};
}

WebReply WebViews::answer(const WebRequest& request) {
  struct Route {
    std::string_view path;
    View view;
  };
  static constexpr std::array kRoutes = {
      Route{"/api/source", &WebViews::source}, Route{"/api/timeline", &WebViews::timeline},
      Route{"/api/list", &WebViews::list},     Route{"/api/worth", &WebViews::worth},
      Route{"/api/flame", &WebViews::flame},   Route{"/api/table", &WebViews::table},
      Route{"/api/diff", &WebViews::diff},     Route{"/api/lines", &WebViews::lines},
      Route{"/api/search", &WebViews::search}};
  const std::string& path = request.path();
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(kPage)};
  if (path == "/api/export") return download(request);
  if (path == "/debug/pprof/profile") return start_profile(request);
  const auto* const route = std::ranges::find(kRoutes, std::string_view(path), &Route::path);
  if (route != kRoutes.end()) return reply_of_text((this->*route->view)(request));
  return page_file(path.substr(std::min<std::size_t>(path.size(), 1)));
}

}  // namespace profd
