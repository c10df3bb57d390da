#include "collectors/xray/follower.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectors/xray/app_link.h"
#include "collectors/xray/detach_reason.h"
#include "collectors/xray/function_choice.h"
#include "collectors/xray/live_packets.h"
#include "collectors/xray/live_reading.h"
#include "collectors/xray/live_region.h"
#include "collectors/xray/live_result.h"
#include "collectors/xray/reading_result.h"
#include "collectors/xray/tick_rate.h"
#include "formats/xray/map.h"

namespace profd::xray {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Memory for 8 million records: at 100 million a second they last four times as long.
constexpr milliseconds kBetweenDrains{20};
constexpr milliseconds kBetweenIdleDrains{40};
// Until there are records, but not for an app that has nothing to do: who started the session
// waits.
constexpr milliseconds kBetweenFirstDrains{5};
constexpr milliseconds kFirstDrains{1000};
constexpr milliseconds kBetweenNews{200};
constexpr milliseconds kBeginLimit{5000};
constexpr milliseconds kEndLimit{2000};
// Who starts a session waits so long for an app that is patching a million functions, and the
// session longer.
constexpr milliseconds kPatchedLimit{3000};
constexpr milliseconds kPatchLimit{30000};

// For what is not the app's: the program's headers, the buffers of records and packets.
constexpr std::uint64_t kOwnBytes = std::uint64_t{4} << 20;

// A profile of fewer would say nothing.
constexpr std::size_t kLeastStacks = 4096;

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  (void)::getrandom(&seed, sizeof seed, GRND_NONBLOCK);
  return seed;
}

bool tell_failure(int daemon, DetachReason end, const Error& error) {
  const NewsPacket packet{.news = News::kFailed, .end = end, .error = sandbox::answer_of(error)};
  return sandbox::send_packet(daemon, sandbox::bytes_of(packet));
}

Error too_much() {
  return fail(ErrorCode::kTooLarge, "the app's calls need more memory than is allowed",
              "record fewer functions: --functions");
}

Error too_large() {
  return fail(ErrorCode::kTooLarge, "the program has more functions than the memory left is for",
              "stop another session that records calls");
}

// Why there is nothing to show.
struct Failure {
  DetachReason end{};
  Error error{};
};

class Follower {
 public:
  Follower(int daemon, UniqueFd program, UniqueFd connection, const OrderPacket& order)
      : daemon_(daemon),
        program_(std::move(program)),
        link_(std::move(connection), order.session),
        session_(order.session),
        memory_bytes_(order.memory_bytes) {}

  std::optional<Failure> attach(std::string_view pattern) {
    auto map = read_function_map(program_.get());
    if (!map) return Failure{DetachReason::kRefused, map.error()};
    map_ = std::move(*map);
    const std::uint64_t taken = kOwnBytes + 2 * map_.functions.size() * sizeof(Function);
    limits_ = LiveLimits::of(memory_bytes_ - std::min(memory_bytes_, taken));
    if (limits_.stacks < kLeastStacks) return Failure{DetachReason::kOutOfMemory, too_large()};
    auto chosen = choose(pattern);
    if (!chosen) return Failure{DetachReason::kAsAsked, chosen.error()};
    auto app = link_.begin(kBeginLimit);
    if (!app) return Failure{end_of_talk(app.error().code), app.error()};
    if (app->functions != map_.functions.size()) {
      return Failure{
          DetachReason::kNonsense,
          fail(ErrorCode::kMalformed, "the app has other functions than its program's file")};
    }
    first_function_ = app->first_function;
    if (auto placed = check_place(measured_program()); !placed) {
      return Failure{DetachReason::kNonsense, placed.error()};
    }
    auto region = LiveRegion::open(std::move(app->memory), session_);
    if (!region) return Failure{DetachReason::kBadMemory, region.error()};
    region_.emplace(std::move(*region));
    reading_.emplace(random_seed(), limits_);
    if (auto sent = link_.patch(*chosen); !sent) {
      return Failure{end_of_talk(sent.error().code), sent.error()};
    }
    attached_ = Clock::now();
    return std::nullopt;
  }

  // Until the daemon wants no more, or is gone. The first news is that the functions are patched,
  // or take long to be; an app that is out before, and has told nothing, has never begun.
  std::optional<Failure> run() {
    for (;;) {
      const std::uint64_t bytes = drain();
      if (!has_begun_ && is_out() && reading_->records() == 0) return Failure{end_, why_};
      watch_patching();
      tell_progress();
      const auto order = wait_for_order(pause_after(bytes));
      if (!order) return std::nullopt;
      if (*order == Order::kShow && !show(reading_->so_far(region_->dropped())))
        return std::nullopt;
      if (*order == Order::kFinish) return finish();
    }
  }

 private:
  // A place in the loop where nothing was ordered.
  static constexpr Order kNone{};

  [[nodiscard]] bool is_out() const { return end_ != DetachReason::kAsAsked; }

  [[nodiscard]] milliseconds pause_after(std::uint64_t bytes) const {
    if (bytes != 0) return kBetweenDrains;
    const bool is_first = reading_->records() == 0 && Clock::now() - attached_ < kFirstDrains;
    return is_first ? kBetweenFirstDrains : kBetweenIdleDrains;
  }

  Result<std::vector<std::int32_t>> choose(std::string_view pattern) {
    if (pattern.empty()) return std::vector<std::int32_t>();
    SymbolBudget budget;
    const auto names = read_function_names(program_.get(), map_, budget);
    auto chosen = choose_functions(names, pattern);
    if (!chosen || !chosen->empty()) return chosen;
    const auto named = std::ranges::find_if_not(names, &std::string::empty);
    return fail(
        ErrorCode::kNotFound,
        "none of the " + std::to_string(map_.functions.size()) + " instrumented functions matches",
        named == names.end() ? "they have no names: the program is stripped"
                             : "one of them is " + demangled(*named));
  }

  void watch_patching() {
    const auto waited = Clock::now() - attached_;
    const bool is_patching = !is_out() && link_.patches_under_way() != 0;
    if (!has_begun_ && (!is_patching || waited > kPatchedLimit)) begin();
    if (!is_patching || waited < kPatchLimit) return;
    app_is_out(DetachReason::kSilent,
               fail(ErrorCode::kTimeout, "the app doesn't say that its functions are patched"));
  }

  void begin() {
    has_begun_ = true;
    tell(News::kProgress);
    if (is_out()) tell(News::kAppIsOut);
  }

  // The first reason is the reason; what comes of it is no other.
  void app_is_out(DetachReason end, const Error& why) {
    if (end_ != DetachReason::kAsAsked) return;
    end_ = end;
    why_ = why;
    if (has_begun_) tell(News::kAppIsOut);
  }

  void app_is_out(const Error& of_talk) { app_is_out(end_of_talk(of_talk.code), of_talk); }

  // The bytes that were new. An app that is out may still be writing, but for one whose memory
  // makes no sense.
  std::uint64_t drain(bool is_last = false) {
    if (end_ == DetachReason::kBadMemory || end_ == DetachReason::kOutOfMemory) return 0;
    const auto take = [this](const LivePiece& piece) { reading_->take(piece); };
    try {
      const auto bytes = is_last ? region_->finish(take) : region_->drain(take);
      if (bytes) return *bytes;
      app_is_out(DetachReason::kBadMemory, bytes.error());
    } catch (const std::bad_alloc&) {
      app_is_out(DetachReason::kOutOfMemory, too_much());
    }
    return 0;
  }

  // None: the daemon is gone.
  std::optional<Order> wait_for_order(milliseconds limit) {
    pollfd both[] = {{.fd = daemon_, .events = POLLIN, .revents = 0},
                     {.fd = is_out() ? -1 : link_.descriptor(), .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, static_cast<int>(limit.count())) <= 0) return kNone;
    if (both[1].revents != 0) {
      if (auto taken = link_.take_answer(); !taken) app_is_out(taken.error());
    }
    if (both[0].revents == 0) return kNone;
    OrderPacket packet;
    const auto received = sandbox::receive_packet(daemon_, sandbox::buffer_of(packet));
    if (!received || received->bytes != sizeof packet) return std::nullopt;
    return packet.order;
  }

  // What is on its way is read meanwhile, so that nobody has to drop anything.
  void let_go() {
    if (is_out()) return;
    Result<void> talk = link_.end();
    const Clock::time_point end = Clock::now() + kEndLimit;
    while (talk && !is_out() && !link_.has_ended() && Clock::now() < end) {
      pollfd answer{.fd = link_.descriptor(), .events = POLLIN, .revents = 0};
      if (::poll(&answer, 1, static_cast<int>(kBetweenDrains.count())) > 0) {
        talk = link_.take_answer();
      }
      drain();
    }
    const bool in_time = talk || talk.error().code != ErrorCode::kTimeout;
    if (!talk && in_time) return app_is_out(talk.error());
    if (link_.has_ended()) return;
    app_is_out(DetachReason::kStillPatched,
               fail(ErrorCode::kTimeout, "the app doesn't say that it has ended the recording",
                    "it may be stopped"));
  }

  // An app whose own doing ended the session before it told anything has nothing to show.
  std::optional<Failure> finish() {
    let_go();
    drain(true);
    if (is_misconduct(end_) && reading_->records() == 0) return Failure{end_, why_};
    link_.release();
    (void)show(reading_->finish(region_->dropped()));
    return std::nullopt;
  }

  Result<UniqueFd> make_sealed_result(const Measured& measured, std::uint64_t max_frames) {
    auto result =
        make_result(measured, ticks_.ns_per_tick(region_->clock()), measured_program(), max_frames);
    if (!result) return result.error();
    result->functions = map_.functions.size();
    result->patched = link_.patched();
    return sandbox::make_sealed(encode(*result));
  }

  // Stacks without their outermost frames are better than none.
  bool show(const Measured& measured) {
    for (const std::uint64_t max_frames : {std::uint64_t{limits_.frames}, std::uint64_t{0}}) {
      try {
        const auto sealed = make_sealed_result(measured, max_frames);
        if (!sealed && max_frames != 0) continue;
        if (!sealed) return tell_failure(daemon_, DetachReason::kOutOfMemory, sealed.error());
        const int memory = sealed->get();
        return tell(News::kResult, {&memory, 1});
      } catch (const std::bad_alloc&) {
        continue;
      }
    }
    return tell_failure(daemon_, DetachReason::kOutOfMemory, too_much());
  }

  [[nodiscard]] MeasuredProgram measured_program() const {
    return {.program = program_.get(), .map = map_, .first = first_function_};
  }

  bool tell(News news, std::span<const int> descriptors = {}) {
    last_news_ = Clock::now();
    told_records_ = reading_->records();
    const NewsPacket packet{.news = news,
                            .functions = static_cast<std::uint32_t>(map_.functions.size()),
                            .patched = link_.patched(),
                            .end = end_,
                            .records = told_records_,
                            .dropped = region_->dropped(),
                            .error = sandbox::answer_of(why_)};
    return sandbox::send_packet(daemon_, sandbox::bytes_of(packet), descriptors);
  }

  void tell_progress() {
    if (!has_begun_) return;
    const bool is_new = reading_->records() != told_records_ || link_.patched() != told_patched_;
    // The first ones at once: who started the session may wait for them.
    const bool is_first = told_records_ == 0;
    if (!is_new || (!is_first && Clock::now() - last_news_ < kBetweenNews)) return;
    told_patched_ = link_.patched();
    tell(News::kProgress);
  }

  int daemon_;
  UniqueFd program_;
  AppLink link_;
  std::uint32_t session_;
  std::uint64_t memory_bytes_;
  LiveLimits limits_;
  std::optional<LiveReading> reading_;
  TickRate ticks_;
  FunctionMap map_;
  std::uint64_t first_function_ = 0;
  std::optional<LiveRegion> region_;
  Clock::time_point attached_{};
  bool has_begun_ = false;
  DetachReason end_ = DetachReason::kAsAsked;
  Error why_;  // of end_
  Clock::time_point last_news_{};
  std::uint64_t told_records_ = 0;
  std::uint32_t told_patched_ = 0;
};

void follow_app(int daemon) {
  OrderPacket order;
  auto received = sandbox::receive_packet(daemon, sandbox::buffer_of(order));
  if (!received || received->bytes != sizeof order || received->descriptors.size() != 2 ||
      order.pattern_bytes > kMaxPatternBytes) {
    return;
  }
  std::vector<UniqueFd>& files = received->descriptors;
  try {
    Follower follower(daemon, std::move(files[0]), std::move(files[1]), order);
    auto failure = follower.attach({order.pattern.data(), order.pattern_bytes});
    if (!failure) failure = follower.run();
    if (failure) tell_failure(daemon, failure->end, failure->error);
  } catch (const std::bad_alloc&) {
    tell_failure(daemon, DetachReason::kOutOfMemory, too_much());
  }
}

}  // namespace

const sandbox::ChildKind kFollowerChild{.name = "xray-follower", .run = &follow_app};

}  // namespace profd::xray
