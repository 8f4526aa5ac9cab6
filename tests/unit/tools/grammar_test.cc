#include "tools/atoll/words/grammar.h"
#include "runtime/base/duration.h"

#include <gtest/gtest.h>

#include "runtime/base/duration.h"
#include "runtime/base/signal_word.h"
#include "tools/atoll/client/exit.h"
#include "tools/atoll/words/nearest.h"

namespace atl::cli {
namespace {

// One verb of each kind.
struct Grammar {
  Verb root{"atoll", "Test"};
  bool json = false, tty = false, interactive = false;
  std::string image, cwd, one;
  int number = 0;
  Words env, command, many;
  Line line;

  Grammar() {
    root.Takes(Option{"--json", "", "Global", &json});
    Verb& run = root.Add("run", "With a command");
    run.Takes(Argument{"IMAGE", "Image", &image});
    run.TakesCommand(Argument{"COMMAND", "Command", &command, false});
    run.Takes(Option{"-i,--interactive", "", "Flag", &interactive});
    run.Takes(Option{"-t,--tty", "", "Flag", &tty});
    run.Takes(Option{"-w,--workdir", "PATH", "Text", &cwd});
    run.Takes(Option{"-e,--env", "NAME=VALUE", "List", &env});
    run.Takes(Option{"-n,--number", "N", "Number", &number, Range{1, 9}});
    Verb& group = root.Add("image", "With verbs");
    group.Add("rm,remove", "With a list").Takes(Argument{"IMAGE", "Images", &many});
    root.Add("net", "With one").Takes(Argument{"ID", "One", &one});
  }
  Status Read(const Words& words) { return ReadLine(root, words, &line); }
  std::string Wrong(const Words& words) {
    const Status read = Read(words);
    return read ? "" : read.error().message();
  }
};

TEST(Grammar, TheCommandIsTheCommands) {
  const Words plain = {"ls", "-l", "--json", "--", "[1,2]", ""}, ours = {"-n", "4", "--json", "-h"};
  for (const auto& [before, command] :
       {std::pair(Words{}, plain), {{"--"}, plain}, {{}, ours}, {{"--"}, ours}}) {
    Grammar g;
    Words words = {"run", "-it", "-w/tmp", "-e", "A=1", "--env=B=--", "-n", "3", "img"};
    words.insert(words.end(), before.begin(), before.end());
    words.insert(words.end(), command.begin(), command.end());
    ASSERT_TRUE(g.Read(words));
    EXPECT_EQ(g.command, command);
    EXPECT_EQ(g.image, "img");
    EXPECT_EQ(g.cwd, "/tmp");
    EXPECT_EQ(g.env, (Words{"A=1", "B=--"}));
    EXPECT_EQ(g.number, 3);
    EXPECT_TRUE(g.interactive && g.tty);
    EXPECT_FALSE(g.json);
  }
}

TEST(Grammar, AnOptionMayStandForAnArgument) {
  Verb root{"atoll", "Test"};
  std::string image, language;
  Verb& run = root.Add("run", "");
  run.Takes(Argument{"IMAGE", "", &image, true, {}, &language});
  run.Takes(Option{"--code", "LANGUAGE", "", &language});
  Line line;
  EXPECT_FALSE(ReadLine(root, {"run"}, &line));
  EXPECT_TRUE(ReadLine(root, {"run", "--code", "python"}, &line));
  EXPECT_TRUE(ReadLine(root, {"run", "--code", "python", "img"}, &line));
  EXPECT_EQ(image, "img");
}

TEST(Grammar, GlobalOptionsAndAliasesAnywhere) {
  Grammar g;
  ASSERT_TRUE(g.Read({"image", "remove", "a", "--json", "b"}));
  EXPECT_EQ(g.many, (Words{"a", "b"}));
  EXPECT_TRUE(g.json);
  EXPECT_EQ(g.line.verb->Path(), "atoll image rm");
  Grammar help;
  ASSERT_TRUE(help.Read({"run", "--help"}));
  EXPECT_TRUE(help.line.help);
  EXPECT_NE(HelpText(*help.line.verb).find("atoll run [OPTIONS] IMAGE [COMMAND [ARGUMENT…]]"),
            std::string::npos);
}

TEST(Grammar, WhatIsWrongIsNamed) {
  const std::pair<Words, const char*> cases[] = {
      {{}, "a command is missing"},
      {{"rnu"}, "did you mean 'run'?"},
      {{"fetch", "x"}, "atoll image pull"},
      {{"zzzzzz"}, "'zzzzzz' is no command of atoll"},
      {{"run"}, "IMAGE is missing"},
      {{"run", "--", "x"}, "IMAGE is missing before --"},
      {{"run", "-w"}, "--workdir: 1 required PATH missing"},
      {{"run", "--workdri", "x", "img"}, "did you mean '--workdir'?"},
      {{"run", "--privileged", "img"}, "no sandbox gets privileges"},
      {{"run", "-n", "10", "img"}, "--number: '10': a whole number from 1 to 9 is expected"},
      {{"run", "-n", "1x", "img"}, "--number: '1x': a whole number"},
      {{"run", "--tty=perhaps", "img"}, "takes no value was given one"},
      {{"net", "a", "b"}, "'b' is one word too many"},
      {{"net"}, "ID is missing"},
      {{"image", "rmm", "x"}, "did you mean 'rm'?"},
  };
  for (const auto& [words, text] : cases) {
    const std::string wrong = Grammar().Wrong(words);
    EXPECT_NE(wrong.find(text), std::string::npos) << text << " <- " << wrong;
  }
}

TEST(Grammar, NearestIsNearOrNothing) {
  const Words known = {"images", "inspect", "python:3.11"};
  EXPECT_EQ(Nearest("imgaes", known), "images");
  EXPECT_EQ(Nearest("pyhton:3.11", known), "python:3.11");
  EXPECT_EQ(Nearest("insp", known), "inspect");
  EXPECT_EQ(Nearest("volume", known), "");
  EXPECT_EQ(Nearest(std::string(5000, 'i'), known), "");
}

TEST(Exit, OfExecdsWords) {
  EXPECT_EQ(ExitOf(3, "exit status 3").code, 3);
  EXPECT_EQ(ExitOf(3, "exit status 3").reason, "");
  EXPECT_EQ(ExitOf(-1, "signal: segmentation fault").code, 139);
  EXPECT_EQ(ExitOf(-1, "signal: signal 40").code, 168);
  EXPECT_EQ(ExitOf(-1, "signal: killed (timeout)").reason, "killed by SIGKILL (timeout)");
  EXPECT_EQ(ExitOf(-1, "").code, 255);
  EXPECT_EQ(ExitOf(1, "exit status 1 (out of memory: x)").reason,
            "ended with code 1 (out of memory: x)");
  EXPECT_EQ(ExitOf(-1, "signal: signal 99999999999").code, 255);
}

TEST(Exit, SignalsByNameAndNumber) {
  for (const char* text : {"9", "KILL", "SIGKILL", "kill"}) EXPECT_EQ(SignalNumber(text), 9);
  EXPECT_EQ(SignalNumber("SIGRTMIN+3"), SIGRTMIN + 3);
  for (const char* text : {"", "0", "65", "nonsense", "-1", "RTMIN+99", "RTMIN-1"}) {
    EXPECT_EQ(SignalNumber(text), 0) << text;
  }
}

TEST(Durations, AreReadAsPeopleWriteThem) {
  for (const auto& [text, seconds] :
       std::vector<std::pair<std::string, int64_t>>{{"0", 0},
                                                    {"90", 90},
                                                    {"90s", 90},
                                                    {"5m", 300},
                                                    {"2h", 7200},
                                                    {"1d", 86400},
                                                    {"1h30m", 5400},
                                                    {"1d2h3m4s", 93784}}) {
    EXPECT_EQ(ParseDuration(text), seconds) << text;
  }
  for (const char* text : {"", "s", "5x", "-5m", "+5", "5 m", "1.5h", "30m1h", "5m5m", "1h30",
                           "99999999999", "9223372036854775807d", "5ms"}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
  EXPECT_EQ(DurationText(0), "0s");
  EXPECT_EQ(DurationText(90), "90s");
  EXPECT_EQ(DurationText(5400), "90m");
  EXPECT_EQ(DurationText(86400), "1d");
}

}  // namespace
}  // namespace atl::cli
