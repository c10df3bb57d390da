// The parser as its user sees it: the right answers, and an error with a reason for everything that
// a child may do.

#include "collectors/parser/parser.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/parser/messages.h"
#include "collectors/sandbox/packets.h"
#include "formats/symbols/find_code_names.h"
#include "formats/unwind/cfi_tables.h"
#include "tests/collectors/forked.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

constexpr DigestKey kKey{{0x0123456789abcdef, 42}};

class ParserTest : public testing::Test {
 protected:
  void start(const ParserLimits& limits = {}) {
    auto parser = Parser::start(limits);
    ASSERT_TRUE(parser) << parser.error().message;
    parser_ = std::move(*parser);
  }

  UniqueFd program_{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  std::unique_ptr<Parser> parser_;
};

TEST_F(ParserTest, AnswersAreThoseOfTheFunctionsThatItRuns) {
  start();
  const auto summary = parser_->read_elf_summary(program_.get());
  const auto expected = read_elf_summary(program_.get());
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->entry, expected->entry);
  EXPECT_EQ(summary->build_id, expected->build_id);
  ASSERT_EQ(summary->segments.size(), expected->segments.size());
  for (std::size_t i = 0; i < summary->segments.size(); ++i) {
    EXPECT_EQ(summary->segments[i].vaddr, expected->segments[i].vaddr);
    EXPECT_EQ(summary->segments[i].flags, expected->segments[i].flags);
  }

  const std::uint64_t addresses[] = {expected->entry, 0};
  SymbolBudget budget;
  const auto symbols = parser_->find_elf_symbols(program_.get(), addresses, budget);
  ASSERT_TRUE(symbols) << symbols.error().message;
  EXPECT_EQ(*symbols, *profd::find_elf_symbols(program_.get(), addresses, budget));

  const auto names = parser_->find_code_names(program_.get(), program_.get(), addresses, budget);
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_EQ(*names, *profd::find_code_names(program_.get(), program_.get(), addresses, budget));
  EXPECT_EQ(names->at(0).frames.at(0).name, "_start");
  EXPECT_EQ(names->at(0).source, NameSource::kDebugFile);
  const auto without_debug = parser_->find_code_names(program_.get(), -1, addresses, budget);
  ASSERT_TRUE(without_debug) << without_debug.error().message;
  EXPECT_EQ(without_debug->at(0).source, NameSource::kSymbolTable);

  const auto source = parser_->read_unwind_source(program_.get(), kKey);
  const auto expected_source = read_unwind_source(program_.get(), kKey);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->build_id, expected_source->build_id);
  EXPECT_TRUE(source->has_eh_frame);
  EXPECT_EQ(source->digest[0], expected_source->digest[0]);
  EXPECT_EQ(source->digest[1], expected_source->digest[1]);

  const auto runtime = parser_->find_runtime(program_.get());
  ASSERT_TRUE(runtime) << runtime.error().message;
  EXPECT_EQ(runtime->verdict, RuntimeVerdict::kNone);

  const auto table = parser_->make_unwind_table(program_.get(), -1);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(*table, *make_unwind_table(program_.get(), -1));
  EXPECT_EQ(parser_->restarts(), 0U);
}

TEST_F(ParserTest, AnErrorOfAFileIsTheAnswer) {
  start();
  const UniqueFd text(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  const auto answer = parser_->make_unwind_table(text.get(), -1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, make_unwind_table(text.get(), -1).error().code);
  EXPECT_EQ(parser_->restarts(), 0U);
}

// As where the kernel has no memory for the packet: nothing has reached the child.
TEST_F(ParserTest, ARequestThatCannotBeSentIsAnErrorAtOnceAndTheChildStays) {
  start();
  constexpr int kNotOpen = 1'000'000'000;
  const auto answer = parser_->read_elf_summary(kNotOpen);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBusy) << answer.error().message;
  const pid_t child = parser_->child();
  EXPECT_FALSE(parser_->read_elf_summary(kNotOpen));
  EXPECT_EQ(parser_->child(), child);
  EXPECT_EQ(parser_->restarts(), 0U);
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
}

TEST_F(ParserTest, TheChildHasNoDescriptorsButItsOwn) {
  const UniqueFd secret(::open("/etc/passwd", O_RDONLY));  // without O_CLOEXEC
  start();
  const std::string directory = "/proc/" + std::to_string(parser_->child()) + "/fd";
  const auto descriptors = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  // The child may be about to close its first answer.
  for (int i = 0; i < 1000 && descriptors().size() > 4; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(descriptors(), (std::set<std::string>{"0", "1", "2", "3"}));
}

TEST_F(ParserTest, AChildThatIsKilledInARequestIsAnErrorAndTheNextRequestWorks) {
  start();
  const pid_t child = parser_->child();
  ::kill(child, SIGSTOP);
  std::thread killer([child] {
    std::this_thread::sleep_for(100ms);
    ::kill(child, SIGKILL);
  });
  const auto lost = parser_->read_elf_summary(program_.get());
  killer.join();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
  const auto next = parser_->read_elf_summary(program_.get());
  EXPECT_TRUE(next) << next.error().message;
  EXPECT_NE(parser_->child(), child);
  EXPECT_EQ(parser_->restarts(), 1U);
}

TEST_F(ParserTest, AChildThatDiesBetweenRequestsCausesNoError) {
  start();
  ::kill(parser_->child(), SIGKILL);
  std::this_thread::sleep_for(100ms);
  const auto answer = parser_->read_elf_summary(program_.get());
  EXPECT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(parser_->restarts(), 1U);
}

TEST_F(ParserTest, AChildThatMayEndItselfIsReplacedAndThatIsNoRestart) {
  start({.idle_time = 5100ms});  // 5 s of which are the margin
  const pid_t child = parser_->child();
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
  EXPECT_EQ(parser_->child(), child);
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
  EXPECT_NE(parser_->child(), child);
  EXPECT_EQ(parser_->restarts(), 0U);
}

TEST_F(ParserTest, AChildThatHangsIsKilledAtTheTimeLimit) {
  start({.wall_time = 100ms});
  const pid_t child = parser_->child();
  ::kill(child, SIGSTOP);
  const auto late = parser_->read_elf_summary(program_.get());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(::kill(child, 0), -1);  // gone, and reaped
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
}

// Keeps a process from being reaped once it is killed, like one that hangs in the kernel.
pid_t hold_back(pid_t process) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t holder = fork_into([&] {
    const char done = ::ptrace(PTRACE_SEIZE, process, nullptr, nullptr) == 0 ? '+' : '-';
    if (::write(ends[1], &done, 1) != 1) return 1;
    ::alarm(60);
    for (;;) ::pause();
    return 0;
  });
  ::close(ends[1]);
  char done = '-';
  const bool is_held = ::read(ends[0], &done, 1) == 1 && done == '+';
  ::close(ends[0]);
  EXPECT_TRUE(is_held);
  return holder;
}

// An empty file.
UniqueFd file_of(uid_t user) {
  std::string path = "/tmp/profd_parser_XXXXXX";
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  std::filesystem::remove(path);
  EXPECT_EQ(::fchown(file.get(), user, user), 0);
  return file;
}

TEST_F(ParserTest, FilesOfRootHaveAChildOfTheirOwn) {
  const UniqueFd of_user = file_of(54'321);
  start();
  const pid_t roots = parser_->child();
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
  EXPECT_EQ(parser_->child(), roots);
  EXPECT_FALSE(parser_->read_elf_summary(of_user.get()));
  const pid_t others = parser_->child();
  EXPECT_NE(others, roots);
  EXPECT_FALSE(parser_->read_elf_summary(file_of(54'322).get()));
  EXPECT_EQ(parser_->child(), others);
  // A file of root whose debug file is a user's.
  (void)parser_->make_unwind_table(program_.get(), of_user.get());
  EXPECT_EQ(parser_->child(), others);
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
  EXPECT_EQ(parser_->child(), roots);
  EXPECT_EQ(parser_->restarts(), 0U);
}

TEST_F(ParserTest, AChildThatIsNeverReapedAffectsItsFilesOwnerAlone) {
  const UniqueFd of_user = file_of(54'321);
  start({.wall_time = 200ms});
  EXPECT_FALSE(parser_->read_elf_summary(of_user.get()));
  ::kill(parser_->child(), SIGSTOP);
  const pid_t holder = hold_back(parser_->child());
  const auto late = parser_->read_elf_summary(of_user.get());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  const auto again = parser_->read_elf_summary(of_user.get());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kBusy);
  const auto of_other = parser_->read_elf_summary(file_of(54'322).get());
  ASSERT_FALSE(of_other);
  EXPECT_EQ(of_other.error().code, ErrorCode::kMalformed);
  EXPECT_TRUE(parser_->read_elf_summary(program_.get())) << "a file of root";
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

TEST_F(ParserTest, AChildThatIsNeverReapedDoesNotStopFilesOfRoot) {
  start({.wall_time = 200ms});
  ::kill(parser_->child(), SIGSTOP);
  const pid_t holder = hold_back(parser_->child());
  const auto late = parser_->read_elf_summary(program_.get());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  const auto again = parser_->read_elf_summary(program_.get());
  EXPECT_TRUE(again) << again.error().message;
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

// The user of sandboxed children, where the daemon is root.
constexpr uid_t kUserOfChildren = 2'147'483'000;

// As the door of the control socket, whose clients the daemon has not received yet.
pid_t leave_descriptors_on_their_way() {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t sender = fork_into([ready] {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return 1;
    if (::setresuid(kUserOfChildren, kUserOfChildren, kUserOfChildren) != 0) return 1;
    for (int i = 0; i < 100; ++i) {
      if (!sandbox::send_packet(ends[0], "x", {&ready[0], 1})) return 1;
    }
    if (::write(ready[1], "+", 1) != 1) return 1;
    ::pause();
    return 0;
  });
  ::close(ready[1]);
  char sent = '-';
  EXPECT_EQ(::read(ready[0], &sent, 1), 1);
  ::close(ready[0]);
  EXPECT_EQ(sent, '+');
  return sender;
}

TEST_F(ParserTest, AnswersWhileOtherChildrenHaveDescriptorsOnTheirWay) {
  const pid_t sender = leave_descriptors_on_their_way();
  start();
  EXPECT_TRUE(parser_->read_elf_summary(program_.get()));
  EXPECT_EQ(parser_->restarts(), 0U);
  ::kill(sender, SIGKILL);
  ::waitpid(sender, nullptr, 0);
}

void send(int socket, std::string_view packet, std::span<const int> descriptors) {
  if (!sandbox::send_packet(socket, packet, descriptors)) ::_exit(1);
}

void send_answer(int socket, const sandbox::Answer& answer, std::span<const int> descriptors) {
  send(socket, {reinterpret_cast<const char*>(&answer), sizeof answer}, descriptors);
}

// A parser whose child is a function of the test. `answers` handles each request but the first, to
// which the right answer is sent.
std::unique_ptr<Parser> parser_that(const std::function<void(int socket)>& answers,
                                    const ParserLimits& limits) {
  const auto spawn = [answers](int socket) -> Result<pid_t> {
    return fork_into([&] {
      const auto good = sandbox::make_sealed("");
      const sandbox::Answer answer;
      const int fd = good->get();
      sandbox::Request request;
      const std::span<char> into(reinterpret_cast<char*>(&request), sizeof request);
      if (!sandbox::receive_packet(socket, into)) return 1;
      send_answer(socket, answer, {&fd, 1});
      while (true) {
        const auto received = sandbox::receive_packet(socket, into);
        if (!received || received->bytes == 0) return 0;
        answers(socket);
      }
    });
  };
  auto parser = Parser::start(limits, spawn);
  EXPECT_TRUE(parser) << parser.error().message;
  return parser ? std::move(*parser) : nullptr;
}

struct Lie {
  const char* name;
  ErrorCode refused_as;
  std::function<void(int socket)> answer;
};

class LyingParserTest : public testing::TestWithParam<Lie> {};

TEST_P(LyingParserTest, IsRefused) {
  const UniqueFd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto parser = parser_that(GetParam().answer, {.answer_bytes = 1000});
  ASSERT_NE(parser, nullptr);
  const auto answer = parser->read_elf_summary(program.get());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, GetParam().refused_as) << answer.error().message;
}

void answer_with(int socket, std::string_view result) {
  const auto sealed = sandbox::make_sealed(result);
  const int fd = sealed->get();
  send_answer(socket, {}, {&fd, 1});
}

INSTANTIATE_TEST_SUITE_P(
    ParserTest, LyingParserTest,
    testing::Values(
        Lie{"ResultOfAnotherForm", ErrorCode::kMalformed,
            [](int socket) { answer_with(socket, "nonsense"); }},
        Lie{"NoResult", ErrorCode::kMalformed, [](int socket) { answer_with(socket, ""); }},
        Lie{"TooLargeAResult", ErrorCode::kTooLarge,
            [](int socket) { answer_with(socket, std::string(1001, 'x')); }},
        Lie{"SuccessWithoutADescriptor", ErrorCode::kMalformed,
            [](int socket) { send_answer(socket, {}, {}); }},
        Lie{"TwoDescriptors", ErrorCode::kMalformed,
            [](int socket) {
              const auto sealed = sandbox::make_sealed("");
              const int fds[] = {sealed->get(), sealed->get()};
              send_answer(socket, {}, fds);
            }},
        Lie{"MemoryThatCanChange", ErrorCode::kMalformed,
            [](int socket) {
              const UniqueFd memory(::memfd_create("open", MFD_ALLOW_SEALING));
              const int fd = memory.get();
              send_answer(socket, {}, {&fd, 1});
            }},
        Lie{"AFile", ErrorCode::kMalformed,
            [](int socket) {
              const UniqueFd file(::open("/etc/passwd", O_RDONLY));
              const int fd = file.get();
              send_answer(socket, {}, {&fd, 1});
            }},
        Lie{"APipeThatNeverAnswers", ErrorCode::kMalformed,
            [](int socket) {
              int ends[2];
              if (::pipe(ends) != 0) return;
              send_answer(socket, {}, {ends, 1});
            }},
        Lie{"AnUnknownError", ErrorCode::kMalformed,
            [](int socket) { send_answer(socket, {.status = 1000}, {}); }},
        Lie{"ATextLongerThanItsPlace", ErrorCode::kMalformed,
            [](int socket) {
              send_answer(socket, {.status = 1, .text_bytes = sandbox::kMaxTextBytes + 1}, {});
            }},
        Lie{"AHintLongerThanItsText", ErrorCode::kMalformed,
            [](int socket) {
              send_answer(socket, {.status = 1, .text_bytes = 1, .hint_bytes = 2}, {});
            }},
        Lie{"AShortPacket", ErrorCode::kMalformed, [](int socket) { send(socket, "x", {}); }},
        Lie{"ALongPacket", ErrorCode::kMalformed,
            [](int socket) { send(socket, std::string(4096, 'x'), {}); }},
        Lie{"TheEnd", ErrorCode::kUnavailable, [](int) { ::_exit(0); }}),
    [](const auto& lie) { return std::string(lie.param.name); });

CodeFrame frame_named(const std::string& name) { return {name, name, "a.c", 1, 1}; }

// The answer of a child that sends these names for the addresses 1 and 2.
Result<std::vector<AddressNames>> names_of_child(const parser::FoundCodeNames& found,
                                                 SymbolBudget& budget) {
  const UniqueFd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto parser =
      parser_that([&found](int socket) { answer_with(socket, sandbox::encode(found)); }, {});
  const std::uint64_t addresses[] = {1, 2};
  return parser->find_code_names(program.get(), -1, addresses, budget);
}

TEST(ParserNamesTest, ChecksTheNamesOfAChild) {
  const parser::FoundCodeNames good{
      .table_bytes_left = ~std::uint64_t{0},
      .addresses = {{1, {frame_named("a"), frame_named("b")}, NameSource::kGo, false},
                    {2, {}, NameSource::kGap, false}}};
  SymbolBudget budget{.table_bytes = 1000, .time = 1s};
  const auto names = names_of_child(good, budget);
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_EQ(*names, good.addresses);
  EXPECT_EQ(budget.table_bytes, 1000U) << "a child cannot raise the budget";

  using Found = parser::FoundCodeNames;
  struct Case {
    const char* what;
    std::function<void(Found&)> change;
  };
  for (const Case& c :
       {Case{"too few", [](Found& found) { found.addresses.pop_back(); }},
        {"too many", [](Found& found) { found.addresses.push_back(found.addresses[1]); }},
        {"another order", [](Found& f) { std::swap(f.addresses[0], f.addresses[1]); }},
        {"another address", [](Found& found) { found.addresses[0].address = 3; }},
        {"a source without name", [](Found& found) { found.addresses[0].frames.clear(); }},
        {"a gap with a name",
         [](Found& found) { found.addresses[1].frames.push_back(frame_named("a")); }},
        {"an unknown source",
         [](Found& found) { found.addresses[1].source = NameSource{kNameSources}; }},
        {"too many frames",
         [](Found& found) {
           found.addresses[0].frames.resize(kMaxFramesOfAddress + 1, frame_named("a"));
         }},
        {"an empty name", [](Found& found) { found.addresses[0].frames[0].name.clear(); }},
        {"a long name",
         [](Found& f) { f.addresses[0].frames[1].name.assign(kMaxCodeNameBytes + 1, 'a'); }},
        {"no UTF-8", [](Found& found) { found.addresses[0].frames[1].file = "\xff"; }}}) {
    Found changed = good;
    c.change(changed);
    const auto refused = names_of_child(changed, budget);
    ASSERT_FALSE(refused) << c.what;
    EXPECT_EQ(refused.error().code, ErrorCode::kMalformed) << c.what;
  }
}

// The answer of a child that sends this runtime.
Result<FoundRuntime> runtime_of_child(const FoundRuntime& found) {
  const UniqueFd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto parser =
      parser_that([&found](int socket) { answer_with(socket, sandbox::encode(found)); }, {});
  return parser->find_runtime(program.get());
}

RawCode python_code(std::string_view name) {
  RawCode code{.kind = PROFD_RUNTIME_PYTHON, .layout = 4, .first_line = 12, .units = 8};
  code.texts[PROFD_CODE_NAME] = {.bytes = name, .kind = PROFD_TEXT_LATIN_1};
  code.texts[PROFD_CODE_FILE] = {.bytes = "/app/main.py", .kind = PROFD_TEXT_LATIN_1};
  // Four units of line 12, four of line 14.
  code.texts[PROFD_CODE_LINES] = {.bytes = std::string_view("\xeb\0\xeb\x04", 4),
                                  .kind = PROFD_TEXT_BYTES};
  return code;
}

// More than one request has room for.
TEST_F(ParserTest, CodeObjectsAreDecodedInTheirOrderByTheChildOfTheirOwner) {
  start();
  std::vector<std::string> names;
  names.reserve(parser::kMaxCodesOfRequest + 3);
  for (std::size_t i = 0; i < parser::kMaxCodesOfRequest + 3; ++i) {
    names.push_back("work_" + std::to_string(i));
  }
  std::vector<RawCode> codes;
  codes.reserve(names.size());
  for (const std::string& name : names) codes.push_back(python_code(name));
  const auto decoded = parser_->decode_code(true, codes);
  ASSERT_TRUE(decoded) << decoded.error().message;
  ASSERT_EQ(decoded->size(), codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ((*decoded)[i].name, names[i]);
    EXPECT_EQ((*decoded)[i].file, "/app/main.py");
    EXPECT_EQ((*decoded)[i].lines, (std::vector<InterpretedLine>{{0, 12}, {4, 14}}));
  }
  const pid_t of_root = parser_->child();
  const auto others = parser_->decode_code(false, std::span(codes).first(1));
  ASSERT_TRUE(others) << others.error().message;
  EXPECT_EQ(others->front(), decoded->front());
  EXPECT_NE(parser_->child(), of_root);
  const auto none = parser_->decode_code(true, {});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

// The answer of a child that sends these for one code object.
Result<DecodedCodes> codes_of_child(const DecodedCodes& decoded) {
  const auto parser =
      parser_that([&decoded](int socket) { answer_with(socket, sandbox::encode(decoded)); }, {});
  const RawCode code = python_code("f");
  return parser->decode_code(true, {&code, 1});
}

TEST(ParserCodeTest, ChecksTheCodeOfAChild) {
  const DecodedCode good{.name = "f", .file = "a.py", .lines = {{0, 12}, {4, 14}}};
  const auto decoded = codes_of_child({good});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->front(), good);
  DecodedCode disordered = good;
  std::swap(disordered.lines[0], disordered.lines[1]);
  DecodedCode nameless = good;
  nameless.name.clear();
  for (const DecodedCodes& lie : {DecodedCodes{}, DecodedCodes{good, good},
                                  DecodedCodes{disordered}, DecodedCodes{nameless}}) {
    const auto refused = codes_of_child(lie);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kMalformed);
  }
}

TEST(ParserRuntimeTest, ChecksTheRuntimeOfAChild) {
  FoundRuntime good;
  good.verdict = RuntimeVerdict::kKnown;
  good.kind = PROFD_RUNTIME_PYTHON;
  good.version = 0x030b02;
  good.runtime = {.bias = ~std::uint64_t{0},
                  .code_type = 1,
                  .slot = {-40, 2},
                  .loop = {{3, 4}, {5, 6}},
                  .slot_add = {-7, 8},
                  .slot_form = {PROFD_SLOT_TLS, PROFD_SLOT_DYNAMIC_TLS},
                  .kind = PROFD_RUNTIME_PYTHON,
                  .layout = 4,
                  .libc = PROFD_LIBC_MUSL,
                  .prologue = 0x76,
                  .reserved = {}};
  const auto found = runtime_of_child(good);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->verdict, good.verdict);
  EXPECT_EQ(found->kind, good.kind);
  EXPECT_EQ(found->version, good.version);
  EXPECT_EQ(std::memcmp(&found->runtime, &good.runtime, sizeof good.runtime), 0);

  FoundRuntime changed = good;
  changed.runtime.layout = PROFD_MAX_LAYOUTS;
  const auto refused = runtime_of_child(changed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMalformed);
}

TEST(ParserLimitsTest, AChildThatNeverFinishesIsKilledAtTheCpuLimit) {
  const UniqueFd program(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto parser = parser_that(
      [](int) {
        for (volatile bool forever = true; forever;) {
        }
      },
      {.cpu_time = 100ms, .wall_time = 60s});
  ASSERT_NE(parser, nullptr);
  const auto answer = parser->read_elf_summary(program.get());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
}

TEST(ParserLimitsTest, AProgramThatIsNoParserIsAnErrorAtTheStart) {
  const auto parser =
      Parser::start({}, [](int) -> Result<pid_t> { return fork_into([] { return 0; }); });
  ASSERT_FALSE(parser);
  EXPECT_EQ(parser.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace profd::test
