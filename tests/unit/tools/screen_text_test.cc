#include "tools/atoll/words/screen_text.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::cli {
namespace {

std::string Pass(std::string_view bytes) {
  return ScreenText().Pass(bytes);
}

TEST(ScreenText, PassesWhatStaysOnTheScreen) {
  for (const std::string text :
       {"plain\r\n\ttext\b", "gr\u00fcn \u6f22", "\x1b[1;38;5;12mred\x1b[0m",
        "\x1b[2J\x1b[H\x1b[10;20f", "=\x1b[79b", "\x1b[2T", "\x1b[?25l\x1b[?1049h",
        "\x1b(0lqk\x1b(B", "\x1b[3;10r\x1bM",
        "\x1b"
        "7\x1b"
        "8"}) {
    EXPECT_EQ(Pass(text), text);
  }
}

TEST(ScreenText, LeavesOutWhatActsOnTheTerminal) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\x1b]0;title\x07z", "az"},          // title
      {"a\x1b]52;c;ZXZpbA==\x1b\\z", "az"},  // clipboard
      {"a\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\z", "alinkz"},
      {"a\x1bP$q\"p\x1b\\z", "az"},  // DECRQSS answers into the input
      {"a\x1b[21tz", "az"},          // reports the title
      {"a\x1b[cz", "az"},            // reports the device
      {"a\x1b[6nz", "az"},           // reports the cursor
      {"a\x1b[>0qz", "az"},
      {"a\x1b[?1000hz", "az"},  // mouse
      {"a\x1b[1;1;1;1;9Tz", "az"},
      {"a\x1b[99999bz", "az"},  // repeats
      {"a\x1b[?2004hz", "az"},  // paste
      {"a\x1b_apc\x1b\\z", "az"},
      {"a\x1b^pm\x1b\\z", "az"},
      {"a\x1bXsos\x1b\\z", "az"},
      {"a\x1b"
       "cz",
       "az"},  // reset
      {"a\x1b"
       "Zz",
       "az"},  // reports the device
      {"a\x05\x07\x7f"
       "z",
       "az"},  // enquiry, bell
      {"a\xc2\x9b"
       "21tz",
       "a21tz"},  // a control character of 8 bits
      {"a\x9b"
       "21tz",
       "a21tz"},
      {"a\xff\xc0\x80z", "az"},
      {"a\x1b]0;" + std::string(100'000, 'x') + "\x07z", "az"},
      {"a\x1b[" + std::string(100, '1') + "z", std::string("a") + std::string(35, '1') + "z"},
      {"a\x1b]0;x\x18z", "az"},
  };
  for (const auto& [bytes, shown] : cases) {
    EXPECT_EQ(Pass(bytes), shown) << bytes.substr(0, 40);
    // However the bytes are cut.
    ScreenText screen;
    std::string whole;
    for (const char byte : bytes) whole += screen.Pass({&byte, 1});
    EXPECT_EQ(whole, shown) << bytes.substr(0, 40);
  }
}

}  // namespace
}  // namespace atl::cli
