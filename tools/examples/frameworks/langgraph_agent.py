"""LangGraph: an agent as a graph, whose tool runs in a sandbox.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… langgraph_agent.py
"""
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from workplace import TASK, Workplace, model


def main():
    with model('ANTHROPIC_API_KEY') as (address, key), Workplace() as place:
        tools = [StructuredTool.from_function(place.run_command)]
        claude = ChatAnthropic(model='claude-sonnet-4-5', base_url=address, api_key=key).bind_tools(tools)
        graph = StateGraph(MessagesState)
        graph.add_node('model', lambda state: {'messages': [claude.invoke(state['messages'])]})
        graph.add_node('tools', ToolNode(tools))
        graph.add_edge(START, 'model')
        graph.add_conditional_edges('model', tools_condition)  # to the tools, or to the end
        graph.add_edge('tools', 'model')
        place.report(graph.compile().invoke({'messages': [('user', TASK)]})['messages'][-1].text)


if __name__ == '__main__':
    main()
