// What every subcommand of profctl has: a name, a line of help, options and an action.

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ctl/client/client.h"
#include "ctl/options/shared_options.h"
#include "ctl/output/console.h"
#include "formats/base/result.h"

namespace profd {

// One class for each subcommand, in a source file of its own. Its members are what its options are
// read into.
class Subcommand {
 public:
  Subcommand(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}
  Subcommand(const Subcommand&) = delete;
  Subcommand& operator=(const Subcommand&) = delete;
  virtual ~Subcommand() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& help() const { return help_; }  // one line

  virtual void add_options(OptionList& /*list*/) {}

  // Called after the options were read. Returns the exit code; the caller prints an error.
  virtual Result<int> run(Client& client, const Console& console) = 0;

 private:
  std::string name_;
  std::string help_;
};

// Prints an answer of the daemon: as JSON with --json, else as `print_text` does.
template <class T, class PrintText>
Result<int> print_answer(const Result<T>& answer, const Console& console, PrintText print_text) {
  if (!answer) return answer.error();
  if (console.json) {
    console.out << to_json(*answer) << "\n";
  } else {
    print_text(*answer, console);
  }
  return kExitOk;
}

// A subcommand without options, which prints one answer of the daemon.
template <class T>
class ShowSubcommand final : public Subcommand {
 public:
  using Ask = Result<T> (Client::*)();
  using PrintText = void (*)(const T& answer, const Console& console);

  ShowSubcommand(std::string name, std::string help, Ask ask, PrintText print_text)
      : Subcommand(std::move(name), std::move(help)), ask_(ask), print_text_(print_text) {}

  Result<int> run(Client& client, const Console& console) override {
    return print_answer((client.*ask_)(), console, print_text_);
  }

 private:
  Ask ask_;
  PrintText print_text_;
};

std::unique_ptr<Subcommand> make_ask_runtimes();
std::unique_ptr<Subcommand> make_config();
std::unique_ptr<Subcommand> make_convert();
std::unique_ptr<Subcommand> make_debuginfo();
std::unique_ptr<Subcommand> make_diff();
std::unique_ptr<Subcommand> make_doctor();
std::unique_ptr<Subcommand> make_dump();
std::unique_ptr<Subcommand> make_events();
std::unique_ptr<Subcommand> make_export();
std::unique_ptr<Subcommand> make_flame();
std::unique_ptr<Subcommand> make_history();
std::unique_ptr<Subcommand> make_list();
std::unique_ptr<Subcommand> make_ps();
std::unique_ptr<Subcommand> make_record();
std::unique_ptr<Subcommand> make_report();
std::unique_ptr<Subcommand> make_ship();
std::unique_ptr<Subcommand> make_start();
std::unique_ptr<Subcommand> make_status();
std::unique_ptr<Subcommand> make_stop();
std::unique_ptr<Subcommand> make_top();
std::unique_ptr<Subcommand> make_view();
std::unique_ptr<Subcommand> make_web();

}  // namespace profd
