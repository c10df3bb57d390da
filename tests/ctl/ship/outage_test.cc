// Half an hour without an engine, with each kind of failure in it, and a kill at each moment. The
// clock is the test's; in the first test, the sockets, TLS and files are those of profctl ship.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/ship/endpoint_shipper.h"
#include "ctl/ship/engines/engine.h"
#include "ctl/ship/transport/push_client.h"
#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ship/a_certificate.h"
#include "tests/ctl/ship/a_server.h"
#include "tests/ctl/ship/a_window.h"

namespace profd {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

const ShipTime kOutageNoon = std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + 12h;
constexpr int kMaxMinutes = 60;
constexpr int kMaxStacks = 4;

// "20260102T12MM00Z"
std::string name_at(int minute) {
  return "20260102T12" + std::to_string(100 + minute).substr(1) + "00Z";
}

// Of a function that is in that window alone.
std::string function_at(int minute, int stack) {
  return name_at(minute) + "/" + std::to_string(stack);
}

// The functions of a request to Pyroscope. Their names are found as bytes, whatever lies around
// them.
std::vector<std::string> functions_in(std::string_view packed) {
  std::vector<std::string> functions;
  const auto body = unpack_gzip(packed, std::size_t{1} << 24);
  EXPECT_TRUE(body);
  if (!body) return functions;
  for (int minute = 0; minute < kMaxMinutes; ++minute) {
    for (int stack = 0; stack < kMaxStacks; ++stack) {
      std::string name = function_at(minute, stack);
      if (body->find(name) != std::string::npos) functions.push_back(std::move(name));
    }
  }
  return functions;
}

std::vector<std::string> windows_of(const std::vector<std::string>& functions) {
  std::vector<std::string> windows;
  windows.reserve(functions.size());
  for (const std::string& function : functions) {
    windows.push_back(function.substr(0, function.find('/')));
  }
  return windows;
}

class OutageClock final : public ShipClock {
 public:
  [[nodiscard]] ShipTime now() override { return time; }
  [[nodiscard]] bool wait(std::chrono::milliseconds pause) override {
    pass(pause);
    return !is_ended;
  }
  [[nodiscard]] double random() override { return 0.5; }
  void pass(std::chrono::nanoseconds pause) {
    time += pause;
    if (on_pass) on_pass(pause);
  }

  ShipTime time = kOutageNoon;
  bool is_ended = false;
  std::function<void(std::chrono::nanoseconds)> on_pass;
};

// Windows of a minute, one after the other from noon on. A window is there when its minute is over;
// the clock passes while none is there, and ends after the last one. Each has the same number of
// stacks, in one service or each in its own.
class OutageHistory final : public WindowSource {
 public:
  OutageHistory(OutageClock& clock, int windows, int stacks, bool is_one_service)
      : clock_(clock), windows_(windows), stacks_(stacks), is_one_service_(is_one_service) {}

  Result<WindowNames> windows_after(const std::string& name) override {
    if (on_call) on_call();
    std::vector<std::string> names;
    for (int minute = 0; minute < windows_; ++minute) {
      if (name_at(minute) <= name) continue;
      if (names.empty()) await_end(minute);
      if (end_of(minute) <= clock_.now()) names.push_back(name_at(minute));
    }
    if (names.empty()) clock_.is_ended = true;
    return WindowNames{.windows = std::move(names)};
  }
  Result<std::string> window(const std::string& name) override {
    if (on_call) on_call();
    for (int minute = 0; minute < windows_; ++minute) {
      if (name == name_at(minute)) return file_of(minute);
    }
    return fail(ErrorCode::kNotFound, "gone");
  }

  std::function<void()> on_call;

 private:
  static ShipTime end_of(int minute) { return kOutageNoon + std::chrono::minutes(minute + 1); }

  void await_end(int minute) {
    if (end_of(minute) > clock_.now()) clock_.pass(end_of(minute) - clock_.now());
  }

  [[nodiscard]] std::string file_of(int minute) const {
    const ShipTime start = kOutageNoon + std::chrono::minutes(minute);
    test::AWindow window(start.time_since_epoch().count());
    window.profile.duration_ns = std::chrono::nanoseconds(1min).count();
    for (int stack = 0; stack < stacks_; ++stack) {
      const int process = is_one_service_ ? 1 : stack + 1;
      window.add(process, "process-" + std::to_string(process), "-", function_at(minute, stack),
                 stack + 1);
    }
    return encode_pprof_gzip(window.profile);
  }

  OutageClock& clock_;
  int windows_;
  int stacks_;
  bool is_one_service_;
};

class OutageTest : public testing::Test {
 protected:
  OutageTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "outage-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~OutageTest() override { std::filesystem::remove_all(directory_); }

  // A process of profctl ship, until its clock ends.
  ShipState ship(WindowSource& source, PushClient& client, OutageClock& clock,
                 const std::function<void()>& on_call = {}) {
    auto file = ShipStateFile::open(directory_, "a");
    EXPECT_TRUE(file) << file.error().message;
    const auto engine = make_pyroscope_engine("");
    const SplitOptions split;
    WindowMemory memory;
    const EndpointShipper::Log log = [&](const std::string& line) {
      log_.push_back(line);
      if (on_call) on_call();
    };
    const EndpointShipper::Show show = [&](const EndpointReport&) {
      if (on_call) on_call();
    };
    EndpointShipper shipper({.source = source,
                             .engine = *engine,
                             .client = client,
                             .clock = clock,
                             .file = *file,
                             .memory = memory,
                             .split = split,
                             .log = log,
                             .show = show});
    shipper.run();
    return file->state();
  }

  std::filesystem::path directory_;
  std::vector<std::string> log_;
};

enum class Fault : std::uint8_t {
  kNone,
  kNoName,            // the lookup of its name fails
  kRefused,           // nothing listens
  kTlsEnds,           // the connection ends in the handshake
  kSilent,            // the handshake is not answered
  kByteByByte,        // takes the request, and answers a byte a minute
  kEndsAfterRequest,  // takes the request, and ends without answer; it has no profile then
  kUnauthorized,
  kRateWithTime,  // 429 with Retry-After
  kRate,          // 429 without
  kInternal,      // 500
  kTooLarge,      // 413
  kFullDisk,      // the disk is full before the request, and then 503
  kDiskFills,     // the disk is full when 503 comes
};

// One after the other, each at one attempt; then kRefused. What may have arrived comes first: later
// windows are halved by 413.
constexpr std::array kFaults{Fault::kNoName,       Fault::kRefused,    Fault::kTlsEnds,
                             Fault::kSilent,       Fault::kByteByByte, Fault::kEndsAfterRequest,
                             Fault::kUnauthorized, Fault::kFullDisk,   Fault::kRateWithTime,
                             Fault::kInternal,     Fault::kDiskFills,  Fault::kTooLarge,
                             Fault::kRate};

std::string fault_answer(Fault fault) {
  const auto answer = [](const std::string& status, const std::string& header = {}) {
    return "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: 0\r\n" + header +
           "\r\n";
  };
  switch (fault) {
    case Fault::kNone:
      return answer("200 OK", "Content-Type: application/proto\r\n");
    case Fault::kUnauthorized:
      return answer("401 Unauthorized");
    case Fault::kRateWithTime:
      return answer("429 Too Many Requests", "Retry-After: 40\r\n");
    case Fault::kRate:
      return answer("429 Too Many Requests");
    case Fault::kInternal:
      return answer("500 Internal Server Error");
    case Fault::kTooLarge:
      return answer("413 Payload Too Large");
    case Fault::kByteByByte:
      return "H";
    default:
      return answer("503 Service Unavailable");
  }
}

// An engine behind TLS, and what lies between it and its client. Each request has a connection of
// its own, so each asks for the address first.
class FaultyEngine {
 public:
  explicit FaultyEngine(const std::filesystem::path& directory)
      : obstacle_(directory / "a.json.next"), ca_file_((directory / "ca.pem").string()) {
    ca_.write(ca_file_);
  }

  [[nodiscard]] std::unique_ptr<PushClient> client() {
    HttpEndpoint endpoint;
    endpoint.name = "a";
    endpoint.url = server_.url("https", "engine.example");
    endpoint.address = parse_http_url(endpoint.url).value();
    endpoint.tls.ca_file = ca_file_;
    PushSurroundings surroundings;
    surroundings.limits.connect = 5s;
    surroundings.limits.answer = 5s;
    surroundings.lookup = [this](const std::string&) { return find(); };
    surroundings.environment = [](const char*) { return std::string(); };
    return make_push_client(endpoint, std::move(surroundings));
  }

  void set_down(bool is_down) { is_down_ = is_down; }
  // Root may write anywhere: a directory is in the way of the file.
  void fill_disk() { std::filesystem::create_directory(obstacle_); }
  void free_disk() { std::filesystem::remove(obstacle_); }
  [[nodiscard]] std::size_t attempts() const { return attempts_; }
  [[nodiscard]] std::vector<std::string> stored() {
    const std::scoped_lock lock(mutex_);
    return stored_;
  }

 private:
  static constexpr std::size_t kMaxConnections = 1000;

  Result<HostAddresses> find() {
    Fault fault = Fault::kNone;
    if (is_down_) {
      const std::size_t attempt = attempts_++;
      fault = attempt < kFaults.size() ? kFaults.at(attempt) : Fault::kRefused;
    }
    fault_ = fault;
    if (fault == Fault::kNoName) return fail(ErrorCode::kUnavailable, "no such name");
    if (fault == Fault::kFullDisk) fill_disk();
    return HostAddresses{fault == Fault::kRefused ? "127.0.0.2" : "127.0.0.1"};
  }

  void serve(test::Peer& peer) {
    const Fault fault = fault_;
    if (fault == Fault::kTlsEnds) return;
    if (fault == Fault::kSilent) {
      peer.await_close();
      return;
    }
    if (!peer.start_tls(tls_)) return;
    const std::string request = peer.read_request();
    if (request.empty()) return;
    const bool has_it =
        fault == Fault::kNone || fault == Fault::kByteByByte || fault == Fault::kEndsAfterRequest;
    if (has_it) keep(request);
    if (fault == Fault::kEndsAfterRequest) return;
    if (fault == Fault::kDiskFills) fill_disk();
    peer.write(fault_answer(fault));
    if (fault == Fault::kByteByByte) peer.await_close();  // the next byte would be for later
  }

  void keep(std::string_view request) {
    const auto functions = functions_in(request.substr(request.find("\r\n\r\n") + 4));
    const std::scoped_lock lock(mutex_);
    stored_.insert(stored_.end(), functions.begin(), functions.end());
  }

  std::filesystem::path obstacle_;
  std::string ca_file_;
  test::ACertificate ca_{""};
  test::ACertificate own_{"DNS:engine.example", &ca_};
  test::ServerTls tls_{own_};
  std::atomic<bool> is_down_ = false;
  std::atomic<std::size_t> attempts_ = 0;  // while it is down
  std::atomic<Fault> fault_ = Fault::kNone;
  std::mutex mutex_;
  std::vector<std::string> stored_;
  // Last: its thread uses the others.
  test::Server server_{
      std::vector<test::Server::Flow>(kMaxConnections, [this](test::Peer& peer) { serve(peer); })};
};

// Fails where a window that failed is skipped, overtaken, or sent anew after it may have arrived;
// where a full disk ends the shipper or loses a window; and where a failure is logged again.
TEST_F(OutageTest, HalfAnHourOfEachFailureLosesNothingAndSendsNothingTwice) {
  constexpr int kWindows = 40;
  constexpr int kStacks = 4;
  FaultyEngine engine(directory_);
  OutageClock clock;
  clock.on_pass = [&](std::chrono::nanoseconds pause) {
    engine.set_down(clock.time >= kOutageNoon + 3min && clock.time < kOutageNoon + 33min);
    if (pause.count() > 0) engine.free_disk();
  };
  OutageHistory history(clock, kWindows, kStacks, true);
  const auto client = engine.client();
  const ShipState state = ship(history, *client, clock);

  EXPECT_GT(engine.attempts(), kFaults.size());
  const std::vector<std::string> stored = engine.stored();
  EXPECT_THAT(stored, SizeIs(kWindows * kStacks));
  EXPECT_THAT(std::set(stored.begin(), stored.end()), SizeIs(kWindows * kStacks));
  EXPECT_TRUE(std::ranges::is_sorted(windows_of(stored)));
  EXPECT_EQ(state.window, name_at(kWindows - 1));
  EXPECT_EQ(state.in_flight, "");
  // The engine has the one that had no answer, which profctl can't know. The next request without
  // answer had no profile.
  EXPECT_EQ(state.windows_sent, std::uint64_t{kWindows - 1});
  EXPECT_THAT(state.windows_dropped, ElementsAre(Pair("unknown", 1)));
  EXPECT_THAT(state.profiles_dropped, ElementsAre(Pair("unknown", 1)));
  EXPECT_EQ(state.windows_unknown, 0U);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("fails"), "works again"));
}

struct Killed : std::exception {};

// Counts the moments of a process, at one of which it is killed.
class Moments {
 public:
  explicit Moments(int fatal) : left_(fatal) {}
  void pass() {
    if (--left_ == 0) throw Killed();
  }

 private:
  int left_;
};

// Keeps what it gets; each third request is answered with 503.
class MemoryEngine final : public PushClient {
 public:
  Result<void> connect() override {
    if (on_call) on_call();
    return {};
  }
  PushReply push(const PushMessage& message) override {
    if (on_call) on_call();
    PushReply reply;
    reply.reached = PushReply::Reached::kAnswered;
    reply.status = ++requests_ % 3 == 0 ? 503 : 200;
    reply.content_type = message.content_type;
    if (reply.status == 200) {
      const auto functions = functions_in(message.body);
      stored.insert(stored.end(), functions.begin(), functions.end());
    }
    if (on_call) on_call();  // the engine has it, and profctl has no answer
    return reply;
  }

  std::function<void()> on_call;
  std::vector<std::string> stored;

 private:
  int requests_ = 0;
};

class KillTest : public OutageTest {
 protected:
  static constexpr int kWindows = 3;
  static constexpr int kStacks = 2;

  // A process that is killed at this moment, and one after it. Whether it was killed.
  bool ship_with_kill(int moment, MemoryEngine& engine, ShipState& state) {
    Moments moments(moment);
    bool is_killed = false;
    try {
      state = ship_all(engine, [&] { moments.pass(); });
    } catch (const Killed&) {  // no destructor writes the position
      is_killed = true;
      state = ship_all(engine, {});
    }
    return is_killed;
  }

  ShipState ship_all(MemoryEngine& engine, const std::function<void()>& on_call) {
    OutageClock clock;
    clock.time = kOutageNoon + 10min;
    clock.on_pass = [&](std::chrono::nanoseconds) {
      if (on_call) on_call();
    };
    OutageHistory history(clock, kWindows, kStacks, false);
    history.on_call = on_call;
    engine.on_call = on_call;
    return ship(history, engine, clock, on_call);
  }

  // The windows that are not known to have arrived.
  static void expect_all_but_unknown(const MemoryEngine& engine, const ShipState& state) {
    const std::set<std::string> functions(engine.stored.begin(), engine.stored.end());
    EXPECT_THAT(engine.stored, SizeIs(functions.size()));
    EXPECT_TRUE(std::ranges::is_sorted(windows_of(engine.stored)));
    EXPECT_LE(state.windows_unknown, 1U);
    EXPECT_EQ(state.windows_sent + state.windows_unknown, std::uint64_t{kWindows});
    EXPECT_THAT(state.windows_dropped, IsEmpty());
    EXPECT_GE(functions.size(), kStacks * state.windows_sent);
    EXPECT_EQ(state.in_flight, "");
  }
};

// A kill is an exception out of each call that the shipper makes: what it leaves are the files.
// Fails where a request is sent before the position is stored, and where a window in flight is sent
// again, counted twice, or not counted.
TEST_F(KillTest, OneWindowAtMostIsUnknownAfterAKillAtAnyMoment) {
  constexpr int kMaxMoments = 10'000;
  std::uint64_t unknown = 0;
  int moment = 1;
  for (bool is_killed = true; is_killed && moment < kMaxMoments; ++moment) {
    std::filesystem::remove(directory_ / "a.json");
    MemoryEngine engine;
    ShipState state;
    is_killed = ship_with_kill(moment, engine, state);
    SCOPED_TRACE("killed at moment " + std::to_string(moment));
    expect_all_but_unknown(engine, state);
    if (is_killed) unknown += state.windows_unknown;
  }
  EXPECT_LT(moment, kMaxMoments);
  EXPECT_GT(unknown, 0U);
  EXPECT_LT(unknown, static_cast<std::uint64_t>(moment));
}

}  // namespace
}  // namespace profd
