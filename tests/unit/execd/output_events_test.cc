#include "execd/run/output_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/base64.h"

namespace atl::execd {
namespace {

using nlohmann::json;

// Parses the events of a stream as a client does.
std::vector<json> Parse(std::string_view stream) {
  std::vector<json> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    events.push_back(json::parse(stream.substr(0, end)));
    EXPECT_EQ(events.back()["type"], "stdout");
    EXPECT_EQ(events.back()["timestamp"], 7);
    EXPECT_LE(end, 4u << 20);
    stream.remove_prefix(end + 2);
  }
  return events;
}

std::vector<std::string> Texts(std::string_view bytes, size_t step,
                               OutputForm form = OutputForm::kText) {
  OutputEvents events("stdout", form);
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += step) {
    events.Append(bytes.substr(at, step), 7, &out);
  }
  events.End(7, &out);
  EXPECT_EQ(OutputEvents::held(), 0u);
  std::vector<std::string> texts;
  for (const json& event : Parse(out)) texts.push_back(event["text"]);
  return texts;
}

std::string Join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text;
  return joined;
}

TEST(OutputEvents, LinesKeepTheirEnds) {
  EXPECT_EQ(Texts("a\n\nb\r\nc\rd\n\re\r\r\n\r\nend", 100),
            (std::vector<std::string>{"a\n", "\n", "b\r\n", "c\r", "d\n", "\r", "e\r", "\r\n",
                                      "\r\n", "end"}));
  EXPECT_TRUE(Texts("", 1).empty());
}

TEST(OutputEvents, JoinedTextsAreTheOutputAtEveryCut) {
  const std::string bytes =
      "a\n\nb\r\nc\rd\n\re\r\r\n\r\n<&>\"\\ \xE2\x82\xAC \xF0\x9F\x8F\x9D\n\x01 end";
  for (size_t step = 1; step <= bytes.size(); ++step) EXPECT_EQ(Join(Texts(bytes, step)), bytes);
}

TEST(OutputEvents, ALineThatEndsWithReturnDoesNotWaitForTheNext) {
  OutputEvents events("stdout", OutputForm::kText);
  std::string out;
  events.Append("10 %\r", 7, &out);
  EXPECT_EQ(Parse(out).at(0)["text"], "10 %\r");
}

TEST(OutputEvents, SessionsHaveLinesWithoutEndsAtEveryCut) {
  const std::string_view bytes = "a\n\nb\r\nc\rd\n\re\r\r\n\r\nend";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    EXPECT_EQ(Texts(bytes, step, OutputForm::kLines),
              (std::vector<std::string>{"a", "b", "c", "d", "e", "end"}))
        << step;
  }
}

TEST(OutputEvents, BytesThatAreNoUtf8BecomeReplacements) {
  for (const size_t step : {1, 2, 100}) {
    EXPECT_EQ(Join(Texts("a\xFF\nb\xC3\n\xE2\x82", step)), "a\uFFFD\nb\uFFFD\n\uFFFD\uFFFD");
  }
}

TEST(OutputEvents, LongLinesAreWhole) {
  const std::string plain(3 << 20, 'x'), controls(600 << 10, '\x01');
  for (const size_t step : {size_t{8192}, plain.size()}) {
    EXPECT_EQ(Texts(plain + "\n", step).size(), 1u);
    EXPECT_EQ(Texts(controls + "\n", step).size(), 1u);
  }
}

TEST(OutputEvents, LongerOnesAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < OutputEvents::kMaxEvent + 100'000) text += "x\xE2\x82\xAC\xF0\x9F\x8F\x9D";
  for (const size_t step : {size_t{1021}, text.size()}) {
    const auto texts = Texts(text + "\n", step);
    // A split character would become two replacement characters. EXPECT_EQ would print megabytes.
    EXPECT_TRUE(Join(texts) == text + "\n");
    EXPECT_EQ(texts.size(), 2u);
  }
}

TEST(OutputEvents, WhatNoCharacterEndsIsCutAllTheSame) {
  const std::string bytes(1 << 20, '\x80');
  const auto texts = Texts(bytes, bytes.size());
  EXPECT_EQ(texts.size(), 2u);
  EXPECT_EQ(Join(texts).size(), 3 * bytes.size());
}

TEST(OutputEvents, ManyUnfinishedLinesShareABound) {
  std::vector<std::unique_ptr<OutputEvents>> streams;
  std::string out;
  const std::string piece(8192, 'x');
  for (int i = 0; i < 25; ++i) {  // 512 KiB each
    streams.push_back(std::make_unique<OutputEvents>("stdout", OutputForm::kText));
    for (int pieces = 0; pieces < 64; ++pieces) streams.back()->Append(piece, 7, &out);
    EXPECT_LE(OutputEvents::held(),
              OutputEvents::kMaxHeld + streams.size() * OutputEvents::kMinEvent);
  }
  for (const auto& stream : streams) stream->End(7, &out);
  size_t all = 0;
  for (const json& event : Parse(out)) all += event["text"].get<std::string>().size();
  EXPECT_EQ(all, 25u * 64 * piece.size());
  EXPECT_EQ(OutputEvents::held(), 0u);
  streams[0]->Append(piece, 7, &out);
  EXPECT_GT(OutputEvents::held(), 0u);
  streams[0]->Discard();
  EXPECT_EQ(OutputEvents::held(), 0u);
}

TEST(OutputEvents, BytesArriveAsTheyAre) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string bytes(random() % 20000, '\0'), out, got;
    for (char& c : bytes) c = static_cast<char>(random());
    OutputEvents events("stdout", OutputForm::kBytes);
    const size_t step = 1 + random() % 9000;
    for (size_t at = 0; at < bytes.size(); at += step) {
      events.Append(std::string_view(bytes).substr(at, step), 7, &out);
    }
    events.End(7, &out);
    for (const json& event : Parse(out)) got += *DecodeBase64(event["base64"].get<std::string>());
    EXPECT_TRUE(got == bytes);
  }
}

TEST(OutputEvents, AnUnknownEncodingIsRefused) {
  const std::string base64 = "base64", other = "gzip";
  EXPECT_EQ(*ParseOutputForm(nullptr, OutputForm::kLines), OutputForm::kLines);
  EXPECT_EQ(*ParseOutputForm(&base64, OutputForm::kLines), OutputForm::kBytes);
  EXPECT_EQ(ParseOutputForm(&other, OutputForm::kText).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::execd
