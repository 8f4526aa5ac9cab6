#include "execd/code/kernel_message.h"

#include <gtest/gtest.h>

#include "execd/code/kernel_events.h"
#include "execd/code/kernelspec.h"
#include "execd/code/zmtp.h"

namespace atl::execd {
namespace {

using Frames = std::vector<std::string>;

// Signed by Python's hmac: hmac.new(b'secret', b''.join(frames), 'sha256').hexdigest().
Frames Signed() {
  return {"topic",
          "<IDS|MSG>",
          "9f2762aabf745cb55f5632eec0d740d95fc27ed0b6942b04d118d4f6e7e9a520",
          R"({"msg_id":"m","msg_type":"stream"})",
          R"({"msg_id":"run"})",
          "{}",
          R"({"name":"stdout","text":"hi"})"};
}

TEST(KernelMessage, KnowsPythonsSignature) {
  const MessageCodec codec("secret", "session");
  const auto message = codec.Decode(Signed());
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->type, "stream");
  EXPECT_EQ(message->parent, "run");
  EXPECT_EQ(message->content.root().Find("text").text(), "hi");
}

TEST(KernelMessage, RefusesWhatIsNotSigned) {
  const MessageCodec codec("secret", "session");
  for (size_t at = 2; at < Signed().size(); ++at) {
    Frames frames = Signed();
    frames[at].back() = frames[at].back() == '0' ? '1' : '0';
    const auto message = codec.Decode(frames);
    ASSERT_FALSE(message) << at;
    EXPECT_EQ(message.error().code(), Code::kPermissionDenied) << at;
  }
  Frames none = Signed();
  none[2].clear();
  EXPECT_FALSE(codec.Decode(none));
  EXPECT_FALSE(MessageCodec("other", "session").Decode(Signed()));
}

TEST(KernelMessage, RefusesFewerFrames) {
  const MessageCodec codec("secret", "session");
  Frames frames = Signed();
  frames.pop_back();
  EXPECT_FALSE(codec.Decode(frames));
  EXPECT_FALSE(codec.Decode({}));
  EXPECT_FALSE(codec.Decode({"<IDS|MSG>"}));
}

TEST(KernelMessage, WritesWhatItReads) {
  const MessageCodec codec("secret", "session");
  std::string out = ZmtpHello("ROUTER");
  codec.AppendRequest(&out, "execute_request", "id", R"({"code":"1"})", 1'795'427'294'629);
  Frames frames;
  ASSERT_TRUE(ZmtpReader("ROUTER").Feed(
      out, [&frames](ZmtpMessage message) { frames = std::move(message.frames); }));
  EXPECT_NE(frames.at(2).find("\"date\":\"2026-11-23T09:48:14.629Z\""), std::string::npos);
  const auto message = codec.Decode(frames);
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->type, "execute_request");
  EXPECT_EQ(message->content.root().Find("code").text(), "1");
}

std::string Events(std::string type, std::string content, OutputForm form = OutputForm::kText) {
  KernelMessage message;
  message.type = std::move(type);
  message.content = *JsonDocument::Parse(std::move(content));
  std::string out;
  AppendKernelEvents(&out, message, form, 7);
  return out;
}

TEST(KernelEvents, Streams) {
  EXPECT_EQ(Events("stream", R"({"name":"stdout","text":"a\nb"})"),
            "{\"type\":\"stdout\",\"text\":\"a\\nb\",\"timestamp\":7}\n\n");
  EXPECT_EQ(Events("stream", R"({"name":"stderr","text":"e"})"),
            "{\"type\":\"stderr\",\"text\":\"e\",\"timestamp\":7}\n\n");
  EXPECT_EQ(Events("stream", R"({"name":"stdout","text":"hi"})", OutputForm::kBytes),
            "{\"type\":\"stdout\",\"base64\":\"aGk=\",\"timestamp\":7}\n\n");
  EXPECT_EQ(Events("stream", R"({"name":"stdout","text":""})"), "");
}

TEST(KernelEvents, Results) {
  EXPECT_EQ(Events("execute_result",
                   R"({"execution_count":3,"data":{"text/plain":"4","x/y":{"a":[1,-2.50,null]}}})"),
            "{\"type\":\"execution_count\",\"timestamp\":7,\"execution_count\":3}\n\n"
            "{\"type\":\"result\",\"timestamp\":7,\"results\":"
            "{\"text\":\"4\",\"x/y\":{\"a\":[1,-2.50,null]}}}\n\n");
  EXPECT_EQ(Events("display_data", R"({"data":{"image/png":"AA"}})"),
            "{\"type\":\"result\",\"timestamp\":7,\"results\":{\"image/png\":\"AA\"}}\n\n");
}

TEST(KernelEvents, ErrorsAndWhatIsNone) {
  EXPECT_EQ(Events("error", R"({"ename":"E","evalue":"v","traceback":["1","2"]})"),
            "{\"type\":\"status\",\"text\":\"error\",\"timestamp\":7}\n\n"
            "{\"type\":\"error\",\"timestamp\":7,\"error\":"
            "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"1\",\"2\"]}}\n\n");
  // Members with wrong types.
  EXPECT_EQ(Events("display_data", R"({"data":[1]})"),
            "{\"type\":\"result\",\"timestamp\":7,\"results\":{}}\n\n");
  EXPECT_EQ(Events("error", R"({"ename":1,"traceback":{"a":1}})"),
            "{\"type\":\"status\",\"text\":\"error\",\"timestamp\":7}\n\n"
            "{\"type\":\"error\",\"timestamp\":7,\"error\":"
            "{\"ename\":\"Error\",\"evalue\":\"\",\"traceback\":[]}}\n\n");
  EXPECT_EQ(Events("comm_msg", "{}"), "");
}

TEST(KernelEvents, LongOutputIsSeveralEvents) {
  const std::string text(5 << 20, 'x');
  std::string content = R"({"name":"stdout","text":")" + text + "\"}";
  const std::string events = Events("stream", std::move(content));
  size_t longest = 0, count = 0;
  for (size_t at = 0, end; (end = events.find("\n\n", at)) != std::string::npos; at = end + 2) {
    longest = std::max(longest, end - at);
    ++count;
  }
  EXPECT_LE(longest, size_t{4} << 20);
  EXPECT_GE(count, 2u);
  EXPECT_GE(events.size(), text.size());
}

TEST(Kernelspec, Parses) {
  const auto spec = ParseKernelspec(
      R"({"argv":["python3","-f","{connection_file}"],"language":"python","display_name":"P",)"
      R"("env":{"A":"b"},"interrupt_mode":"message"})");
  ASSERT_TRUE(spec) << spec.error().message();
  EXPECT_EQ(spec->argv, (Frames{"python3", "-f", "{connection_file}"}));
  EXPECT_EQ(spec->language, "python");
  EXPECT_EQ(spec->env, (Variables{{"A", "b"}}));
  EXPECT_TRUE(spec->interrupt_by_message);
  for (const char* bad :
       {"", "[]", "{}", R"({"argv":[],"language":"x"})", R"({"argv":["a"]})",
        R"({"argv":[1],"language":"x"})", R"({"argv":["a\u0000"],"language":"x"})",
        R"({"argv":[""],"language":"x"})", R"({"argv":["a"],"language":"x","env":{"A=B":"c"}})"}) {
    EXPECT_FALSE(ParseKernelspec(bad)) << bad;
  }
}

TEST(Kernelspec, KnowsWhichKernelsKnowUnixSockets) {
  const auto knows = [](const std::string& argv, const std::string& more = "") {
    const auto spec = ParseKernelspec("{\"argv\":[" + argv + R"(],"language":"x")" + more + "}");
    return spec && spec->knows_ipc;
  };
  EXPECT_TRUE(knows(R"("python3","-m","ipykernel_launcher","-f","{connection_file}")"));
  EXPECT_TRUE(knows(R"("/opt/bin/python","-I","-m","bash_kernel","-f","{connection_file}")"));
  EXPECT_TRUE(knows(R"("k")", R"(,"metadata":{"transport":"ipc"})"));
  EXPECT_FALSE(knows(R"("java","-jar","k.jar","{connection_file}")"));
  EXPECT_FALSE(knows(R"("python3","-m")"));
  EXPECT_FALSE(knows(R"("python3","-m","other","ipykernel_launcher")"));
  EXPECT_FALSE(knows(R"("k")", R"(,"metadata":{"transport":"tcp"})"));
  EXPECT_FALSE(knows(R"("k")", R"(,"metadata":"ipc")"));
}

}  // namespace
}  // namespace atl::execd
