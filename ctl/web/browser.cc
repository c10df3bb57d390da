#include "ctl/web/browser.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <utility>

#include <stdlib.h>

#include "formats/base/errors.h"
#include "formats/base/unique_fd.h"
#include "formats/base/whole_file.h"

namespace profd {

Result<BrowserLink> BrowserLink::make(const std::string& url) {
  std::string path = (std::filesystem::temp_directory_path() / "profctl-XXXXXX.html").string();
  const UniqueFd file(::mkostemps(path.data(), 5, O_CLOEXEC));
  if (!file.valid()) return fail_errno("could not make " + path);
  BrowserLink link(path);
  const std::string html =
      "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>profd</title>\n"
      "<meta http-equiv=\"refresh\" content=\"0;url=" +
      url + "\">\n<a href=\"" + url + "\">profd</a>\n";
  if (!write_all(file.get(), html)) return fail_errno("could not write " + path);
  return link;
}

BrowserLink::~BrowserLink() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<void> BrowserLink::open(const sigset_t& mask) const {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  }
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string program = "xdg-open";
  std::string argument = path_;
  std::array<char*, 3> arguments{program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, program.c_str(), &files, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return {};
  return fail(ErrorCode::kNotFound, "could not start xdg-open",
              "open the address that is printed in a browser");
}

}  // namespace profd
