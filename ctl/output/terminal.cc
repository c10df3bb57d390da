#include "ctl/output/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "formats/base/unique_fd.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr int kNoSuchProgram = 127;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool is_first_byte(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }

// In the child. As systemctl and git do: less quits if all fits, keeps colours and the screen.
[[noreturn]] void run_pager(const char* command, int input) {
  ::dup2(input, STDIN_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  if (::getenv("LESS") == nullptr) ::setenv("LESS", "FRX", 1);
  ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  ::_exit(kNoSuchProgram);
}

}  // namespace

Screen screen_of(int fd) {
  constexpr std::size_t kUsualWidth = 80;
  if (::isatty(fd) != 1) return {};
  Screen screen{.width = kUsualWidth};
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col != 0) screen.width = size.ws_col;
    screen.height = size.ws_row;
  }
  screen.has_color = environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  return screen;
}

std::string colored(std::string_view text, TextColor color, const Screen& screen) {
  if (!screen.has_color || color == TextColor::kNone || text.empty()) return std::string(text);
  constexpr std::array<std::string_view, 7> kCodes = {"", "1", "2", "31", "32", "33", "36"};
  std::string result = "\x1b[";
  result += kCodes.at(static_cast<std::size_t>(color));
  result += 'm';
  result += text;
  return result += "\x1b[0m";
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char c : text) columns += is_first_byte(c) ? 1 : 0;
  return columns;
}

std::string end_that_fits(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::size_t left = columns - 1;
  std::size_t at = text.size();
  while (at > 0 && left > 0) left -= is_first_byte(text[--at]) ? 1 : 0;
  return "…" + std::string(text.substr(at));
}

std::string start_that_fits(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::size_t at = 0;
  for (std::size_t left = columns; at < text.size(); ++at) {
    if (is_first_byte(text[at]) && --left == 0) break;
  }
  return std::string(text.substr(0, at)) + "…";
}

std::string wrapped(std::string_view text, const Screen& screen) {
  if (!screen.is_terminal()) return std::string(text);
  std::string lines;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const std::size_t columns = columns_of(word);
    const bool fits = used + 1 + columns <= screen.width;
    if (used != 0) lines += fits ? ' ' : '\n';
    used = used != 0 && fits ? used + 1 + columns : columns;
    lines += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool show_in_pager(std::string_view text) {
  const char* const given = std::getenv("PAGER");
  const std::string command = given == nullptr ? "less" : given;
  if (command.empty() || command == "cat") return false;
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t pager = ::fork();
  if (pager < 0) return false;
  if (pager == 0) run_pager(command.c_str(), read_end.get());
  read_end = UniqueFd();
  // One that quits early needs no more of the text. Ctrl-C is for the pager.
  const auto interrupt = ::signal(SIGINT, SIG_IGN);
  (void)write_all(write_end.get(), text);
  write_end = UniqueFd();
  int status = 0;
  while (::waitpid(pager, &status, 0) < 0 && errno == EINTR) {
  }
  ::signal(SIGINT, interrupt);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchProgram);
}

}  // namespace profd
