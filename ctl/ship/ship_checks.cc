#include "ctl/ship/ship_checks.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ctl/client/service_commands.h"
#include "ctl/ship/engine_endpoint.h"
#include "ctl/ship/ship_config.h"
#include "ctl/ship/ship_status.h"
#include "ctl/ship/transport/push_outcome.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

constexpr PushLimits kCheckLimits{.connect = std::chrono::seconds(3),
                                  .send = std::chrono::seconds(3),
                                  .answer = std::chrono::seconds(5)};

CheckPoint ship_point(CheckState state, std::string message, std::string hint = {}) {
  return {.name = "ship", .state = state, .message = std::move(message), .hint = std::move(hint)};
}

// What is private to the service is no problem of it.
CheckState state_of(const Error& error) {
  return error.code == ErrorCode::kPermissionDenied ? CheckState::kUnknown : CheckState::kFix;
}

// The local time of a text of RFC 3339; another text itself.
std::string failure_start(const std::string& utc) {
  const auto time = parse_time_text(utc, WallTime{});
  return time ? local_time_text(*time) : utc;
}

// Of an endpoint that does not fail from here, or is not known here.
CheckPoint failure_point(const EndpointReport& report) {
  return {.name = "ship/" + report.name,
          .state = CheckState::kFix,
          .message = "profctl ship fails since " + failure_start(report.failing_since) + ": " +
                     report.last_error,
          .hint = host_runs_systemd() ? "journalctl -u profd-ship has its log"
                                      : "its standard error has its log"};
}

CheckPoint check_life(const std::optional<ShipStatus>& status) {
  if (status && status->life == ShipStatus::Life::kRuns) {
    return ship_point(CheckState::kOk, "profctl ship runs");
  }
  const bool by_systemd = host_runs_systemd();
  if (status && status->life == ShipStatus::Life::kHangs) {
    return ship_point(CheckState::kFix, "profctl ship does not go on",
                      by_systemd ? "systemctl restart profd-ship" : "end it, and start it again");
  }
  return ship_point(CheckState::kFix, "profctl ship does not run, so nothing is sent",
                    by_systemd ? "systemctl enable --now profd-ship; journalctl -u profd-ship says "
                                 "why it ended"
                               : "run profctl ship, as root or in the group profd");
}

bool is_refused_as_empty(const PushReply& reply, const PushOutcome& outcome, const Engine& engine) {
  const std::string_view refusal = engine.traits().empty_refusal;
  return outcome.kind == PushOutcome::Kind::kRefused && reply.status == 400 && !refusal.empty() &&
         outcome.error.message.find(refusal) != std::string::npos;
}

// Of an answer to a request without profiles.
CheckPoint judge_reply(CheckPoint point, const Engine& engine, const PushReply& reply) {
  const std::string what = std::move(point.message);
  if (reply.reached != PushReply::Reached::kAnswered) {
    const Error& error = reply.error;
    const bool has_url = error.message.find(what) != std::string::npos;
    point.state = CheckState::kFix;
    point.message = has_url ? error.message : what + " does not answer: " + error.message;
    point.hint = error.hint.empty() ? "see the log of the endpoint, and whether another server has "
                                      "its port"
                                    : error.hint;
    return point;
  }
  const PushOutcome outcome = engine.classify(reply);
  if (outcome.kind == PushOutcome::Kind::kStored || is_refused_as_empty(reply, outcome, engine)) {
    point.message = what + " takes requests with these credentials";
    return point;
  }
  point.message = what + " can be reached; " + outcome.error.message;
  // Of a refusal, the hint is about profiles.
  point.hint = outcome.kind == PushOutcome::Kind::kRefused
                   ? "check the url, the tenant and the credentials of the endpoint"
                   : outcome.error.hint;
  const bool is_known = outcome.kind == PushOutcome::Kind::kLater;
  // A gateway answers so: its engine is down, or was too slow.
  const bool is_gateways = outcome.kind == PushOutcome::Kind::kUnknown;
  point.state = is_known || is_gateways ? CheckState::kFix : CheckState::kUnknown;
  if (outcome.error.code == ErrorCode::kPermissionDenied) {
    point.message = what + " refuses the credentials: " + outcome.error.message;
  } else if (!is_known) {
    point.message += "; whether it accepts the credentials is not known";
  }
  return point;
}

}  // namespace

CheckReport check_ship(const std::string& config_file, const std::string& runtime_directory) {
  const auto reading = load_ship_config(config_file);
  if (!reading && reading.error().code == ErrorCode::kNotFound) return {};
  if (!reading) {
    const Error& error = reading.error();
    const bool may_not = error.code == ErrorCode::kPermissionDenied;
    return {ship_point(state_of(error), error.message, may_not ? "sudo profctl doctor" : "")};
  }
  if (!reading->errors.empty()) {
    const Error& first = reading->errors.front();
    return {ship_point(state_of(first), first.message, first.hint)};
  }
  const auto endpoints = endpoints_of(reading->config);
  const auto status = read_ship_status(runtime_directory, std::chrono::system_clock::now());
  CheckReport report(endpoints.size() + 1);
  report[0] = check_life(status);
  std::vector<std::jthread> threads;
  threads.reserve(endpoints.size());
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    threads.emplace_back([&endpoint = endpoints[i], &point = report[i + 1]] {
      PushSurroundings surroundings;
      surroundings.limits = kCheckLimits;
      const auto client = make_push_client(endpoint.http, surroundings);
      point = check_endpoint(endpoint.http, *endpoint.engine, *client);
    });
  }
  threads.clear();  // joins
  if (status && status->life == ShipStatus::Life::kRuns) add_failures(status->endpoints, report);
  return report;
}

void add_failures(const std::vector<EndpointReport>& endpoints, CheckReport& report) {
  report.reserve(report.size() + endpoints.size());
  for (const EndpointReport& endpoint : endpoints) {
    if (endpoint.failing_since.empty()) continue;
    CheckPoint failure = failure_point(endpoint);
    const auto known = std::ranges::find(report, failure.name, &CheckPoint::name);
    if (known == report.end()) {
      report.push_back(std::move(failure));
    } else if (known->state == CheckState::kFix) {
      known->message += "; profctl ship fails there since " + failure_start(endpoint.failing_since);
    } else {
      failure.message += "; from here, " + known->message;
      *known = std::move(failure);
    }
  }
}

CheckPoint check_endpoint(const HttpEndpoint& endpoint, const Engine& engine, PushClient& client) {
  CheckPoint point{.name = "ship/" + endpoint.name, .message = endpoint.url};
  if (auto connected = client.connect(); !connected) {
    const Error& error = connected.error();
    point.state = state_of(error);
    point.message = "unreachable: " + error.message;
    point.hint = error.hint.empty() ? "check the url, the network and the endpoint" : error.hint;
    return point;
  }
  return judge_reply(std::move(point), engine, client.push(engine.empty_request()));
}

}  // namespace profd
