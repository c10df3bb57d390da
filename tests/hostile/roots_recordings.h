// Root's recordings of a second, one after the other, from a process of its own (roots_process.h),
// by the requests of `profctl record -d 1s -o FILE.pb.gz`: a session is started, and stopped after
// the second, and its profile is fetched. What profctl itself does in that time is not there: on a
// busy host its start takes longer than all answers together, and of what it waits for a CPU a part
// falls into the second, so that it could not be subtracted.

#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/api/control_api.h"
#include "formats/api/session_summary.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/hostile/roots_process.h"

namespace profd::e2e {

class RootsRecordings {
 public:
  struct Figures {
    std::vector<std::int64_t> beyond_ms;  // what each took beyond its second, the shortest first
    std::vector<std::string> lost;        // "5 ring_full", of each that lost samples
    std::vector<std::string> failed;      // why
  };

  // Of the process `target`. `log` is a file that is made.
  RootsRecordings(std::filesystem::path socket, pid_t target, std::filesystem::path log)
      : socket_(std::move(socket)),
        log_(std::move(log)),
        process_([this, target] { record(target); }) {}

  // Waits for the recording that is under way.
  Figures end() {
    process_.end();
    Figures figures;
    std::ifstream log(log_);
    for (std::string line; std::getline(log, line);) {
      if (line.starts_with(kFailed)) {
        figures.failed.push_back(line);
        continue;
      }
      const std::size_t space = line.find(' ');
      figures.beyond_ms.push_back(std::stoll(line.substr(0, space)));
      if (space + 1 < line.size()) figures.lost.push_back(line.substr(space + 1));
    }
    std::ranges::sort(figures.beyond_ms);
    return figures;
  }

 private:
  static constexpr const char* kFailed = "failed: ";
  static constexpr std::chrono::seconds kPause{3};

  template <class T>
  static T valid(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }

  void record(pid_t target) const {
    std::string line;
    try {
      line = line_of_recording(target);
    } catch (const std::exception& error) {
      line = std::string(kFailed) + error.what();
    }
    std::ranges::replace(line, '\n', ' ');
    std::ofstream(log_, std::ios::app) << line << '\n';
    std::this_thread::sleep_for(kPause);
  }

  // "MS LOST"
  [[nodiscard]] std::string line_of_recording(pid_t target) const {
    StartRequest request;
    request.target.pids = {static_cast<std::uint32_t>(target)};
    request.duration_ms = 1000;
    request.lease_ms = 30'000;
    const AnswerTime starting;
    const std::string session =
        valid(parse_started(ask("POST", "/v1/sessions", to_json(request), 201)));
    const std::int64_t start_ms = starting.passed().ms;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const AnswerTime stopping;
    const ResultInfo result =
        valid(parse_result_info(ask("POST", "/v1/sessions/" + session + "/stop", {}, 200)));
    const std::string path = "/v1/results/" + result.result;
    if (!result.named_profile) throw std::runtime_error("no profile with names");
    const std::string profile = ask("GET", path + "/files/" + result.named_profile->path, {}, 200);
    const std::int64_t stop_ms = stopping.passed().ms;
    if (profile.size() != result.named_profile->bytes) throw std::runtime_error("cut profile");
    ask("DELETE", path, {}, 204);
    return std::to_string(start_ms + stop_ms) + " " + text_of(result.summary.ledger.lost);
  }

  // The body of an answer. An answer of another status is an error.
  std::string ask(const char* method, const std::string& target, const std::string& body,
                  int status) const {
    RawClient client(socket_);
    RawAnswer answer = client.ask(method, target, body);
    if (answer.status != status) {
      throw std::runtime_error(target + ": " + std::to_string(answer.status) + " " + answer.body);
    }
    return std::move(answer.body);
  }

  std::filesystem::path socket_;
  std::filesystem::path log_;
  RootsProcess process_;  // last, since it uses the others
};

}  // namespace profd::e2e
