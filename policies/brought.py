"""What a program brought into a person's message: a text in, the ranges of it that are no words of theirs out.

Agents without tool calls of their own send what a tool said as the user's next message ("Observation: …", "[read_file
for 'a.md'] Result:"), and put files, pages, rules and reminders before the user's words in elements
(`<document>…</document>`). So an element that is closed is brought, but for those that hold what the user wrote
(`<user_query>`), and so is all behind the head of a tool's output. A front-end's errand (a title, tags, what to ask
next) is brought whole, and so is what a library tells the model of its last answer: nobody said it. Pure; refuses
nothing. Linear.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ASKED_CHARS_MAX: Final = 65_536
"""A longer message is searched by as it is: so many characters take .9 ms where they are prose, 3.6 where they are
indented code, on the event loop."""
_OPENING: Final = re.compile(r"^[ \t]{0,8}<([A-Za-z][\w.:-]{0,60})(?:\s[^<>\n]{0,300})?>", re.MULTILINE)
_CLOSING: Final = re.compile(r"</([A-Za-z][\w.:-]{0,60})\s{0,8}>")
_OWN: Final = re.compile(
    r"task|feedback|query|question|answer"
    r"|(?:user|human)[_-]?(?:query|question|message|input|request|prompt|answer|feedback|task|instructions?|text)?",
    re.IGNORECASE,
)
_STATE: Final = re.compile(r"environment_(?:details|context)|system[_-]reminder", re.IGNORECASE)
_OUTPUT: Final = re.compile(
    r"^[^\w\n]{0,4}(?:observations?(?: \d+)?\W{0,3}:"
    r"|(?:tool|function|command|terminal|shell|search|code|execution)[ _-](?:call[ _-])?"
    r"(?:results?|outputs?|responses?)\b[^:\n]{0,80}:"
    r"|[^\[\]\n]{1,200}\] ?(?:results?|outputs?|responses?)\b[^:\n]{0,40}:"
    r"|outputs? (?:of|from) [^:\n]{1,120}:"
    r"|(?:the )?contents? of (?:the |this )?(?:file|web ?page|page|web ?site|document|url)\b[^:\n]{0,120}:"
    r"|(?:file|web ?page|page|web ?site|document) contents?\b[^:\n]{0,120}:"
    r"|context information (?:from multiple sources )?is below"
    r"|(?:i ran this command:\s{1,4}[^\n]{1,300}\s{1,4})?and got this output:"
    r"|(?:the script ran, then exited with unix exit code: -?\d+\s)?its output was:"
    r"|exitcode: \d+ \([^()\n]{1,60}\)\scode output:"
    r"|this is the context you're working with:"
    r"|i have \*added these files to the chat\*|here are some read only files, provided for your reference"
    r"|here are summaries of some files present in my git repo)",
    re.MULTILINE | re.IGNORECASE,
)
# Templates that put what was found, or what was done so far, around a question, as front-ends and libraries word
# theirs: by their first words.
_FOUND: Final = re.compile(
    r"\s*(?:### Task:\s+(?P<task>respond to the user query using the provided context)\b"
    r"|(?P<pieces>use the following pieces of (?:retrieved )?context to answer"
    r"|context information (?:from multiple sources )?is below"
    r"|answer the (?:following |user's |user )?(?:questions?|query) (?:based|using)\b[^\n]{0,60}\bcontext\b"
    r"|given (?:the following|these) (?:information|documents|context|passages), (?:please )?answer the question)\b"
    r"|(?P<refined>the original query is)\b"
    r"|(?P<modes>you are an expert q&a system that strictly operates in two modes)\b"
    r"|(?P<assisted>you are an assistant for question-answering tasks)\b"
    r"|(?P<fields>\[\[ ## context ## \]\])"
    r"|(?P<react>answer the following questions as best you can)\b"
    r"|(?P<references>please answer the question based on the reference materials|请根据参考资料回答问题))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Template:
    """What stands right before a question, and right behind it where that is not the rest. What was found may hold
    these marks too: where it stands before the question the last ones count (`found_first`), else the first.
    """

    before: re.Pattern[str]
    behind: re.Pattern[str] | None = None
    found_first: bool = True

    def question_in(self, text: str, at: int) -> tuple[int, int] | None:
        """The range of the question behind `at`; None where a mark is missing."""
        befores = [one.end() for one in self.before.finditer(text, at)]
        behinds = [one.start() for one in self.behind.finditer(text, at)] if self.behind else [len(text)]
        if self.found_first:
            end = behinds[-1] if behinds else at
            start = next((one for one in reversed(befores) if one <= end), None)
        else:
            start = befores[0] if befores else len(text)
            end = next((one for one in behinds if one >= start), at)
        return (start, end) if start is not None and start <= end else None


def _line(words: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:{words})", re.MULTILINE | re.IGNORECASE)


_TEMPLATES: Final = {
    "task": _Template(re.compile(r"</context>(?:\s{1,8}<user_query>)?")),
    "pieces": _Template(_line("(?:question|query):")),
    "refined": _Template(re.compile(" as follows:"), _line("we have provided an existing answer:"), found_first=False),
    "modes": _Template(_line("query:"), _line("original answer:")),
    "assisted": _Template(_line("question:"), _line("context:"), found_first=False),
    "fields": _Template(_line(r"\[\[ ## question ## \]\]"), _line("respond with the corresponding output fields")),
    "react": _Template(_line(r"begin!\s{1,8}question:"), _line("thought:"), found_first=False),
    "references": _Template(
        _line("## (?:My question is:|我的问题是：)"), _line("## (?:Reference Materials:|参考资料：)"), found_first=False
    ),
}
# What an agent puts behind the newest message, each time anew: how its edits are to look.
_REMINDER: Final = _line(
    r"to suggest changes to a file you must return the entire content of the updated file\.$"
    r"|# \*search/replace block\* rules:$|# file editing rules:$|# v4a diff format rules:$"
)
# As front-ends, agents and libraries word theirs: titles, then what shortens or rewords what was said. Those of a
# `### Task:` hold the user's question where they are none.
_ERRAND: Final = re.compile(
    r"\s*(?:### Task:\s(?=.*<chat_history>)(?!.*<user_query>)"
    r"|(?:provide|please generate) a concise, 5-word-or-less title for the conversation\b"
    r"|given the following(?:\.\.\.| chat history,) please reply with a title for the chat\b"
    r"|analyze this conversation and provide:\s+1\. the detected language\b"
    r"|your task is to reflect the speaker's likely facial expression through a fitting emoji\b"
    r"|(?:critical: respond with text only\b.{0,1000})?your task is to create a (?:comprehensive, )?detailed summary of"
    r" the (?:conversation so far|entire conversation that captures)\b"
    r"|you are performing a context checkpoint compaction\b"
    r"|you are maintaining a context-aware state summary for an interactive\b"
    r"|provide a detailed prompt for continuing our conversation above\b"
    r"|first, reason in your scratchpad\. then, generate the <state_snapshot>"
    r"|summarize the conversation so far, as described in the prompt instructions\b"
    r"|ignore previous instructions\. summarize the most important (?:facts and events in the story|parts of the)\b"
    r"|<chat_history>(?=.*please summarize the above conversation and retain key information\b)"
    r"|progressively summarize the lines of conversation provided\b"
    r"|create a summary of the conversation above:\s*\Z"
    r"|this is (?:a )?summary of the conversation to date\b(?=.*\bextend the summary by taking into account the new)"
    r"|the following is a conversation between the user and assistant\. write a concise summary about the contents of"
    r"|given the following conversation and a follow up question, rephrase the follow up question\b"
    r"|given a conversation \(between \w+ and \w+\) and a follow up message from \w+,\s+rewrite the message\b"
    r"|generate a concise 3-7 word title for this conversation, omitting punctuation\b"
    r"|generate a title for this conversation:\s*\Z"
    r"|please write a brief title for the following request:"
    r"|please generate a four to five word title summarizing our conversation without any lead-in\b"
    r"|使用四到五个字直接返回这句话的简要主题"
    r"|based on the chat history, give this conversation a name\.\s"
    r"|based on the conversation so far, provide a concise description of this session in \d+ words or less\b"
    r"|analyze the given short conversation \(every line is truncated\) and extract a concise chat title\b"
    r"|generate a detailed summary of this conversation\. include:\s"
    r"|summarize the discussion briefly in 200 words or less to use as a prompt for future context\b"
    r"|简要总结一下对话内容，用作后续的上下文提示"
    r"|summarize the conversation history so far, paying special attention to the most recent agent commands\b"
    r"|(?:<explicit_instructions\b[^>]{0,100}>\s*)?the current conversation is rapidly running out of context\b"
    r"|critical: this is a summarization-only request\b"
    r"|<role>\s+context extraction assistant\s+</role>"
    r"|write a summary of the following\. try to use only the information provided\."
    r"|some text is provided below\. given the text, extract up to \d"
    r"|you are in a role play game\. the following roles are available:"
    r"|(?:expected exactly one name to be mentioned|no valid name was mentioned)\."
    r" please select\b"
    r"|you have been provided with a set of responses from various models to the latest user query:"
    r"|query: history:\s)",
    re.DOTALL | re.IGNORECASE,
)
# What a library or an agent says to the model of its last answer, as they word it.
_NOTICE: Final = re.compile(
    r"\s*(?:(?:correct your json only response, based on the following errors:"
    r"|\[error\] you did not use a tool in your previous response\b"
    r"|i committed the changes with git hash [0-9a-f]{4,40} & commit msg:"
    r"|i didn't see any properly formatted edits in your reply\b"
    r"|please continue working on the task on whatever approach you think is suitable\.)"
    r"|(?:validation feedback|\d+ validation errors?):.*\bfix the errors and try again\.\s*\Z"
    r"|validation errors? found:.*\brecall the function correctly, fix the errors\b"
    r"|(?:call id: \S{1,100}\s)?error:.*\bnow let's retry: take care not to repeat previous errors\b)",
    re.DOTALL | re.IGNORECASE,
)
# What instructs a model to do one, with what it is done to in the messages behind it.
_INSTRUCTED: Final = re.compile(
    r"\W*(?:you are a title generator\. you output only\b"
    r"|you will generate a short title based on the first message\b"
    r"|you are an assistant skilled in conversation\. (?:you need to )?summarize the user's conversation into a title\b"
    r"|你是一名擅长会话的助理，你需要将用户的会话总结为"
    r"|analyze if this message indicates a new conversation topic\b"
    r"|you're an assistant who's good at extracting key takeaways from conversations and summarizing them\b"
    r"|briefly\*? summarize this partial conversation about programming\b"
    r"|you are an expert software engineer that generates concise, one-line git commit messages based on the provided"
    r"|given a chat history and the latest user question which might reference context in the chat history"
    r"|you are an expert in crafting pithy titles for chatbot conversations\b"
    r"|you are a chat thread titling assistant\b"
    r"|you are an ai conversation titles assistant\b"
    r"|you are a professional conversation summarizer\. generate a concise title\b"
    r"|you are a summarization ai\. you'll never answer a user's question directly\b"
    r"|you are a helpful ai assistant tasked with summarizing conversations\b"
    r"|detect user language and write in the same language an extremely concise title for this conversation\b"
    r"|available tools: \[(?=.*\btask is to choose and return the correct tool\(s\)))",
    re.DOTALL | re.IGNORECASE,
)


def is_errand(text: str) -> bool:
    """Whether a chat front-end asks this of the model for itself: a title of the conversation, tags, questions."""
    return _ERRAND.match(text) is not None


def instructs_errand(text: str) -> bool:
    """Whether instructions ask that of the model."""
    return is_errand(text) or _INSTRUCTED.match(text) is not None


def _around(text: str) -> list[tuple[int, int]]:
    """What a known template put around a question: before it, and behind it."""
    head = _FOUND.match(text)
    if head is None or head.lastgroup is None:
        return []
    asked = _TEMPLATES[head.lastgroup].question_in(text, head.end())
    if asked is None:
        return []
    return [(start, end) for start, end in ((head.start(), asked[0]), (asked[1], len(text))) if start < end]


def brought_in(text: str) -> list[tuple[int, int]]:
    """The ranges of a text that a program brought, in order, none in another."""
    if is_errand(text) or _NOTICE.match(text):
        return [(0, len(text))]
    if reminder := _REMINDER.search(text):
        return [*brought_in(text[: reminder.start()]), (reminder.start(), len(text))]
    if around := _around(text):
        return around
    output = _OUTPUT.search(text)
    end = output.start() if output else len(text)
    found, reached = list[tuple[int, int]](), 0
    for opening, closing in _closed(text, end):
        if opening.start() >= reached and not _OWN.fullmatch(opening[1]):
            reached = closing.end()
            found.append((opening.start(), reached))
    if output and found and found[-1][1] > end:
        output = _OUTPUT.search(text, found[-1][1])
    return [*found, (output.start(), len(text))] if output else found


def _closed(text: str, upto: int) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The elements that open before a place and are closed, each with the first closing behind it."""
    closings: defaultdict[str, list[re.Match[str]]] = defaultdict(list)
    for closing in _CLOSING.finditer(text):
        closings[closing[1]].append(closing)
    for opening in _OPENING.finditer(text, 0, upto):
        closed = closings[opening[1]]
        at = bisect_left(closed, opening.end(), key=re.Match.start)
        if at < len(closed):
            yield opening, closed[at]


def asked_in(text: str) -> str:
    """What a person asks in a text that programs wrote in, to search by it: their words; where they have none, what
    stands for them behind the head of a tool's output ("<feedback>…"), which nobody else may take for theirs; else all.
    """
    if len(text) > ASKED_CHARS_MAX:
        return text
    if own := own_words(text).strip():
        return own
    inside, reached = list[str](), 0
    for opening, closing in _closed(text, len(text)):
        if opening.start() >= reached and _OWN.fullmatch(opening[1]):
            reached = closing.end()
            inside.append(text[opening.end() : closing.start()].strip())
    return "\n".join(filter(None, inside)) or text


def unframed(text: str) -> str:
    """What a person says in a known template, or before a reminder to the model; another text as it is."""
    framed = _REMINDER.search(text) or _around(text)
    return (framed and own_words(text).strip()) or text


def output_in(text: str) -> str:
    """The tool's output that a text ends with; "" where there is none."""
    output = _OUTPUT.search(text)
    return text[output.start() :] if output else ""


def is_output(text: str) -> bool:
    """Whether a text is a tool's output and no word of a person's."""
    return bool(output_in(text)) and not own_words(text).strip()


def is_state(text: str) -> bool:
    """Whether a text is only what a program says of its own state: an editor's open files, a reminder to the model,
    what was wrong with its last answer.
    """
    if _NOTICE.match(text):
        return True
    if own_words(text).strip():
        return False
    openings = [_OPENING.match(text, start) for start, _ in brought_in(text)]
    return bool(openings) and all(one is not None and _STATE.fullmatch(one[1]) for one in openings)


def own_words(text: str) -> str:
    """The text without what a program brought."""
    kept, at = [], 0
    for start, end in brought_in(text):
        kept.append(text[at:start])
        at = end
    return "\n".join((*kept, text[at:]))
