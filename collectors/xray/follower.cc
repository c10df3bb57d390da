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
#include "collectors/xray/function_choice.h"
#include "collectors/xray/live_packets.h"
#include "collectors/xray/live_reading.h"
#include "collectors/xray/live_region.h"
#include "collectors/xray/live_result.h"
#include "collectors/xray/result_of_reading.h"
#include "collectors/xray/tick_rate.h"
#include "formats/xray_map.h"

namespace profd::xray {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Memory for 8 million records: at 100 million a second they last four times as long.
constexpr milliseconds kBetweenDrains{20};
constexpr milliseconds kBetweenIdleDrains{40};
constexpr milliseconds kBetweenNews{200};
constexpr milliseconds kBeginLimit{5000};
constexpr milliseconds kEndLimit{2000};

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  (void)::getrandom(&seed, sizeof seed, GRND_NONBLOCK);
  return seed;
}

bool tell_failure(int daemon, const Error& error) {
  const NewsPacket packet{.news = News::kFailed, .error = parser::answer_of(error)};
  return parser::send_packet(daemon, {reinterpret_cast<const char*>(&packet), sizeof packet}, {});
}

class Follower {
 public:
  Follower(int daemon, UniqueFd program, UniqueFd connection, const OrderPacket& order)
      : daemon_(daemon),
        program_(std::move(program)),
        link_(std::move(connection), order.session),
        session_(order.session),
        reading_(random_seed()) {}

  Result<void> attach(std::string_view pattern) {
    auto map = read_function_map(program_.get());
    if (!map) return map.error();
    map_ = std::move(*map);
    auto chosen = choose(pattern);
    if (!chosen) return chosen.error();
    auto app = link_.begin(kBeginLimit);
    if (!app) return app.error();
    if (app->functions != map_.functions.size()) {
      return fail(ErrorCode::kMalformed, "the app has other functions than its program's file");
    }
    first_function_ = app->first_function;
    auto region = LiveRegion::open(std::move(app->memory), session_);
    if (!region) return region.error();
    region_.emplace(std::move(*region));
    return link_.patch(*chosen);
  }

  // Until the daemon wants no more, or is gone.
  Result<void> run() {
    tell(News::kProgress);
    for (;;) {
      const auto bytes = drain();
      if (!bytes) return bytes.error();
      tell_progress();
      const auto order = wait_for_order(*bytes != 0 ? kBetweenDrains : kBetweenIdleDrains);
      if (!order) return {};
      if (*order == Order::kShow && !show(reading_.so_far(region_->dropped()))) return {};
      if (*order == Order::kFinish) return finish();
    }
  }

 private:
  // A place in the loop where nothing was ordered.
  static constexpr Order kNone{};

  Result<std::vector<std::int32_t>> choose(std::string_view pattern) {
    if (pattern.empty()) return std::vector<std::int32_t>();
    SymbolBudget budget;
    auto chosen = choose_functions(read_function_names(program_.get(), map_, budget), pattern);
    if (chosen && chosen->empty()) {
      return fail(ErrorCode::kNotFound, "none of the " + std::to_string(map_.functions.size()) +
                                            " instrumented functions matches");
    }
    return chosen;
  }

  Result<std::uint64_t> drain() {
    return region_->drain([this](const LivePiece& piece) { reading_.take(piece); });
  }

  // None: the daemon is gone.
  std::optional<Order> wait_for_order(milliseconds limit) {
    pollfd both[] = {
        {.fd = daemon_, .events = POLLIN, .revents = 0},
        {.fd = app_is_gone_ ? -1 : link_.descriptor(), .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, static_cast<int>(limit.count())) <= 0) return kNone;
    if (both[1].revents != 0 && !link_.take_answer()) {
      app_is_gone_ = true;
      tell(News::kAppIsGone);
    }
    if (both[0].revents == 0) return kNone;
    OrderPacket packet;
    const auto received =
        parser::receive_packet(daemon_, {reinterpret_cast<char*>(&packet), sizeof packet});
    if (!received || received->bytes != sizeof packet) return std::nullopt;
    return packet.order;
  }

  // What is on its way is read meanwhile, so that nobody has to drop anything.
  void let_go() {
    if (app_is_gone_ || !link_.end()) return;
    const Clock::time_point end = Clock::now() + kEndLimit;
    while (!link_.has_ended() && Clock::now() < end) {
      pollfd answer{.fd = link_.descriptor(), .events = POLLIN, .revents = 0};
      const int ready = ::poll(&answer, 1, static_cast<int>(kBetweenDrains.count()));
      if (ready > 0 && !link_.take_answer()) return;
      if (!drain()) return;
    }
  }

  Result<void> finish() {
    let_go();
    const auto rest = region_->finish([this](const LivePiece& piece) { reading_.take(piece); });
    if (!rest) return rest.error();
    link_.release();
    (void)show(reading_.finish(region_->dropped()));
    return {};
  }

  bool show(const Measured& measured) {
    auto result = make_result(measured, ticks_.ns_per_tick(region_->clock()),
                              {.program = program_.get(), .map = map_, .first = first_function_});
    if (!result) return tell_failure(daemon_, result.error());
    result->functions = map_.functions.size();
    result->patched = link_.patched();
    const auto sealed = parser::make_sealed(encode(*result));
    if (!sealed) return tell_failure(daemon_, sealed.error());
    const int memory = sealed->get();
    return tell(News::kResult, {&memory, 1});
  }

  bool tell(News news, std::span<const int> descriptors = {}) {
    last_news_ = Clock::now();
    told_records_ = reading_.records();
    const NewsPacket packet{.news = news,
                            .functions = static_cast<std::uint32_t>(map_.functions.size()),
                            .patched = link_.patched(),
                            .records = told_records_,
                            .dropped = region_->dropped(),
                            .error = {}};
    return parser::send_packet(daemon_, {reinterpret_cast<const char*>(&packet), sizeof packet},
                               descriptors);
  }

  void tell_progress() {
    const bool is_new = reading_.records() != told_records_ || link_.patched() != told_patched_;
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
  LiveReading reading_;
  TickRate ticks_;
  FunctionMap map_;
  std::uint64_t first_function_ = 0;
  std::optional<LiveRegion> region_;
  bool app_is_gone_ = false;
  Clock::time_point last_news_{};
  std::uint64_t told_records_ = 0;
  std::uint32_t told_patched_ = 0;
};

}  // namespace

void follow_app(int daemon, UniqueFd program, UniqueFd connection) {
  OrderPacket order;
  const auto received =
      parser::receive_packet(daemon, {reinterpret_cast<char*>(&order), sizeof order});
  if (!received || received->bytes != sizeof order || order.pattern_bytes > kMaxPatternBytes) {
    return;
  }
  try {
    Follower follower(daemon, std::move(program), std::move(connection), order);
    Result<void> done = follower.attach({order.pattern.data(), order.pattern_bytes});
    if (done) done = follower.run();
    if (!done) tell_failure(daemon, done.error());
  } catch (const std::bad_alloc&) {
    tell_failure(daemon,
                 fail(ErrorCode::kTooLarge, "the app's calls need more memory than is allowed"));
  }
}

}  // namespace profd::xray
