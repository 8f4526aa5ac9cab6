#include "runtime/http/websocket.h"

#include <gtest/gtest.h>

namespace atl::http {
namespace {

struct Log : WebSocketReader::Sink {
  void OnMessage(bool text, std::string_view message) override {
    log.append(text ? "text:" : "binary:").append(message).append(" ");
  }
  void OnPing(std::string_view payload) override {
    log.append("ping:").append(payload).append(" ");
  }
  void OnPong() override { log.append("pong "); }
  void OnClose(uint16_t code) override { log.append("close:" + std::to_string(code)); }
  std::string log;
};

constexpr size_t kMaxMessage = 1 << 20;

struct FromClient : WebSocketReader {
  FromClient() : WebSocketReader(From::kClient, kMaxMessage) {}
};

// Returns a masked frame, as clients send it.
std::string Frame(uint8_t first, std::string_view payload) {
  std::string out;
  out.push_back(static_cast<char>(first));
  if (payload.size() < 126) {
    out.push_back(static_cast<char>(0x80 | payload.size()));
  } else {
    out.push_back(static_cast<char>(0x80 | 126));
    out.push_back(static_cast<char>(payload.size() >> 8));
    out.push_back(static_cast<char>(payload.size()));
  }
  const std::string_view mask = "\x11\x22\x33\x44";
  out.append(mask);
  for (size_t i = 0; i < payload.size(); ++i) {
    out.push_back(static_cast<char>(payload[i] ^ mask[i % 4]));
  }
  return out;
}

TEST(WebSocket, HandshakeOfTheStandard) {
  Head head;
  head.headers.list = {{"Upgrade", "WebSocket"},
                       {"Connection", "keep-alive, Upgrade"},
                       {"Sec-WebSocket-Version", "13"},
                       {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  const auto answer = WebSocketHandshake(head);
  ASSERT_TRUE(answer);
  // RFC 6455, section 1.3.
  EXPECT_NE(answer->find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            std::string::npos);
  for (size_t i = 0; i < head.headers.list.size(); ++i) {
    Head less = head;
    less.headers.list.erase(less.headers.list.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(WebSocketHandshake(less)) << i;
  }
}

TEST(WebSocket, MessagesAtEveryCut) {
  const std::string bytes = Frame(0x81, "hi") + Frame(0x02, "ab") + Frame(0x89, "p") +
                            Frame(0x80, std::string(200, 'c')) + Frame(0x8A, "") +
                            Frame(0x88, std::string_view("\x03\xE8", 2));
  for (size_t step = 1; step <= bytes.size(); ++step) {
    FromClient reader;
    Log log;
    for (size_t at = 0; at < bytes.size(); at += step) {
      ASSERT_TRUE(reader.Feed(std::string_view(bytes).substr(at, step), &log));
    }
    EXPECT_EQ(log.log, "text:hi ping:p binary:ab" + std::string(200, 'c') + " pong close:1000");
  }
}

TEST(WebSocket, RefusesBadFrames) {
  const std::string unmasked("\x81\x01x", 3);
  for (const std::string& bytes :
       {unmasked, Frame(0xC1, "x"), Frame(0x83, ""), Frame(0x80, "x"), Frame(0x09, "x"),
        Frame(0x89, std::string(126, 'x')), Frame(0x8B, ""), Frame(0x88, "x"),
        Frame(0x01, "x") + Frame(0x81, "y")}) {
    FromClient reader;
    Log log;
    // A good frame follows, so that the bytes suffice for a whole head.
    EXPECT_FALSE(reader.Feed(bytes + Frame(0x8A, ""), &log));
  }
}

TEST(WebSocket, MessagesAreBounded) {
  FromClient reader;
  Log log;
  const auto fed = reader.Feed(std::string_view("\x82\xFF\0\0\0\0\0\x10\0\x01"
                                                "abcd",
                                                14),
                               &log);
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code(), Code::kResourceExhausted);
  FromClient fragments;
  Status status = fragments.Feed(Frame(0x02, std::string(60000, 'x')), &log);
  for (int i = 0; i < 20 && status; ++i) {
    status = fragments.Feed(Frame(0x00, std::string(60000, 'x')), &log);
  }
  EXPECT_FALSE(status);
  FromClient wrapping;
  EXPECT_TRUE(wrapping.Feed(Frame(0x02, "x"), &log));
  EXPECT_FALSE(wrapping.Feed("\x80\xFF" + std::string(12, '\xFF'), &log)) << "2^64 in all";
}

TEST(WebSocket, BothEndsReadEachOther) {
  for (const size_t size : {0U, 1U, 125U, 126U, 65535U, 65536U}) {
    const std::string payload(size, 'x');
    std::string masked, plain;
    AppendMaskedFrame(&masked, Opcode::kText, payload, {1, 2, 3, 4});
    AppendFrame(&plain, Opcode::kText, payload.substr(0, size / 2), payload.substr(size / 2));
    EXPECT_EQ(masked.size(), plain.size() + 4);
    for (const auto& [from, bytes, other] :
         {std::tuple{WebSocketReader::From::kClient, masked, plain},
          std::tuple{WebSocketReader::From::kServer, plain, masked}}) {
      Log log;
      WebSocketReader reader(from, kMaxMessage);
      ASSERT_TRUE(reader.Feed(bytes, &log));
      EXPECT_EQ(log.log, "text:" + payload + " ");
      EXPECT_FALSE(WebSocketReader(from, kMaxMessage).Feed(other, &log)) << "of the wrong end";
    }
  }
}

TEST(WebSocket, TheEndsOfFramesAreFound) {
  for (const size_t size : {0U, 1U, 125U, 126U, 65535U, 65536U}) {
    const std::string payload(size, 'x');
    std::string masked, plain;
    AppendMaskedFrame(&masked, Opcode::kText, payload, {1, 2, 3, 4});
    AppendFrame(&plain, Opcode::kText, payload);
    for (const std::string& frame : {masked, plain}) {
      FrameBoundary single, whole;
      for (size_t i = 0; i < frame.size(); ++i) {
        EXPECT_EQ(single.between_frames(), i == 0) << size << " " << i;
        single.Pass({&frame[i], 1});
      }
      EXPECT_TRUE(single.between_frames()) << size;
      whole.Pass(frame + frame + frame.substr(0, 1));
      EXPECT_FALSE(whole.between_frames()) << size;
      whole.Pass(frame.substr(1));
      EXPECT_TRUE(whole.between_frames()) << size;
    }
  }
}

}  // namespace
}  // namespace atl::http
