#include <time.h>

#include "ctl/commands/subcommand.h"
#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr std::size_t kMaxTargetChars = 40;

std::string target_text(const TargetRequest& target) {
  const std::string text = describe(target);
  return text.size() <= kMaxTargetChars ? text : text.substr(0, kMaxTargetChars - 3) + "...";
}

// Blocks have no rate, and calls have none.
std::string event_text(const SessionInfo& session) {
  if (session.frequency_hz != 0) {
    return session.event + ", " + std::to_string(session.frequency_hz) + " Hz";
  }
  if (session.period != 0) return session.event + ", every " + std::to_string(session.period);
  return session.event;
}

std::string age_text(const SessionInfo& session) {
  const auto started = parse_utc(session.started);
  return started ? duration_text(static_cast<double>(::time(nullptr) - *started)) : "-";
}

void print_sessions(const std::vector<SessionInfo>& sessions, const Console& console) {
  TableRows rows{{"ID", "TARGET", "STATE", "EVENT", "SAMPLES", "LOST", "AGE"}};
  for (const SessionInfo& session : sessions) {
    rows.push_back({session.session, target_text(session.target), session.state,
                    event_text(session), std::to_string(session.samples),
                    std::to_string(session.lost), age_text(session)});
  }
  print_table(std::move(rows), console.out);
}

}  // namespace

std::unique_ptr<Subcommand> make_list() {
  return std::make_unique<ShowSubcommand<std::vector<SessionInfo>>>(
      "list", "List the sessions", &Client::sessions, print_sessions);
}

}  // namespace profd
