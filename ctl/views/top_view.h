// The two panes of `profctl top` on a terminal: processes, and the functions of the selected one.
//
// It knows keys and lines, no terminal.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/output/keys.h"
#include "ctl/output/terminal.h"
#include "ctl/views/top_part.h"

namespace profd {

class TopView {
 public:
  enum class Answer : std::uint8_t { kNothing, kRedraw, kQuit };

  // `target` is what is profiled: "all processes".
  explicit TopView(std::string target) : target_(std::move(target)) {}

  // While it is paused, the part is not shown.
  void set_part(TopPart part);
  // Is shown instead of the help for keys. Empty: nothing is to be said.
  void set_message(std::string message) { message_ = std::move(message); }

  [[nodiscard]] Answer press(const Key& key);

  // What is to be shown, from the top of the screen on.
  [[nodiscard]] std::vector<std::string> lines(const Screen& screen);

 private:
  enum class ProcessOrder : std::uint8_t { kCpu, kPid, kCommand, kUnit };
  enum class FunctionOrder : std::uint8_t { kSelf, kTotal, kName };

  // A list of which a part is shown.
  struct Pane {
    std::size_t at = 0;     // the marked row
    std::size_t first = 0;  // of the rows that are shown
    std::size_t page = 1;   // rows that are shown
    bool is_reversed = false;

    void move(std::ptrdiff_t rows, std::size_t count);
    // Makes the marked row one of `rows`.
    void fit(std::size_t rows, std::size_t count);
  };

  [[nodiscard]] Answer press_character(char character);
  void move(std::ptrdiff_t rows);
  void move_to_end(bool is_last);
  void sort_by(ProcessOrder order);
  void sort_by(FunctionOrder order);
  void change_order(int step);
  void reverse();
  void select();
  void keep_selected(const std::vector<TopProcess>& former);
  void sort_processes();
  void sort_functions();
  [[nodiscard]] Pane& pane() { return in_functions_ ? functions_pane_ : processes_pane_; }
  [[nodiscard]] std::size_t pane_rows() const {
    return in_functions_ ? functions_.size() : processes_.size();
  }
  [[nodiscard]] std::string head() const;
  [[nodiscard]] std::string keys_line() const;

  std::string target_;
  std::string message_ = "collecting samples ...";
  TopPart part_;
  bool has_part_ = false;
  std::vector<TopProcess> processes_;  // the first one stands for all, then those of the part
  std::size_t most_processes_ = 1;     // that were there at a time
  std::vector<ReportRow> functions_;   // of the selected process
  std::string selected_;               // its name; empty: all
  Pane processes_pane_;
  Pane functions_pane_;
  ProcessOrder process_order_ = ProcessOrder::kCpu;
  FunctionOrder function_order_ = FunctionOrder::kSelf;
  bool in_functions_ = false;
  bool is_paused_ = false;
  bool shows_help_ = false;
};

}  // namespace profd
