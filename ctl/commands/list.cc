#include <time.h>

#include <ostream>
#include <string>
#include <vector>

#include "ctl/commands/commands.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr std::size_t kMaxTargetChars = 40;

std::string target_text(const TargetRequest& target) {
  const std::string text = printable(describe(target));
  return text.size() <= kMaxTargetChars ? text : text.substr(0, kMaxTargetChars - 3) + "...";
}

std::string event_text(const SessionInfo& session) {
  const std::string rate = session.frequency_hz != 0 ? std::to_string(session.frequency_hz) + " Hz"
                                                     : "each " + std::to_string(session.period);
  return printable(session.event) + ", " + rate;
}

std::string age_text(const SessionInfo& session) {
  const auto started = parse_utc(session.started);
  return started ? duration_text(static_cast<double>(::time(nullptr) - *started)) : "-";
}

}  // namespace

int run_list(Client& client, const Options& options, const Console& console) {
  const auto sessions = client.sessions();
  if (!sessions) return report(console, sessions.error());
  if (options.json) {
    console.out << to_json(*sessions) << "\n";
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows{
      {"ID", "TARGET", "STATE", "EVENT", "SAMPLES", "LOST", "AGE"}};
  for (const SessionInfo& session : *sessions) {
    rows.push_back({printable(session.session), target_text(session.target),
                    printable(session.state), event_text(session), std::to_string(session.samples),
                    std::to_string(session.lost), age_text(session)});
  }
  print_table(rows, console.out);
  return kExitOk;
}

}  // namespace profd
