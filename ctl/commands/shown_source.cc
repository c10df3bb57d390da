#include "ctl/commands/shown_source.h"

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "ctl/options/shared_options.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::chrono::minutes kUsualRange{10};

std::uint64_t ms_before_now(std::chrono::milliseconds span) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return static_cast<std::uint64_t>((now.time_since_epoch() - span).count());
}

}  // namespace

void add_shown_source(OptionList& list, SourceRequest& request) {
  list.optional_operand(
      "SOURCE",
      "A directory of record, a .pb.gz, .prof or .folded file, the id of a session, or a time: "
      "14:00..14:10 [the last 10 minutes of the history]",
      Reader::path(request.name));
  add_processes(list, request.target);
  add_range(list, request.range);
  list.rule([&list, &request]() -> Result<void> {
    const bool has_range = list.given("--since") || list.given("--until") || list.given("--last");
    if (!request.name.empty() && has_range) {
      return invalid_argument("a source and a time of the history exclude each other",
                              "leave out " + request.name + " or the time");
    }
    if (!has_range) request.range.since_ms = ms_before_now(kUsualRange);
    return {};
  });
}

Result<Source> open_shown_source(Client& client, const SourceRequest& request,
                                 const Console& console) {
  auto source = open_source(client, request);
  if (!source) return source;
  for (const std::string& note : source->notes) {
    console.err << "profctl: " << printable(note) << "\n";
  }
  if (!source->samples.rows().empty()) return source;
  return fail(ErrorCode::kNotFound, source->title + " has no samples",
              "nothing used the CPU then, or too little for a sample");
}

}  // namespace profd
