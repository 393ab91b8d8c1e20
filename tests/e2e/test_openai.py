"""The official OpenAI client against the real server and a real model."""

import openai
import pytest

STORY = "Once upon a time there was a small house by the sea, and in the house there lived"
MESSAGES = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell me about the sea."}]


def test_models(client):
    models = client.models.list().data
    assert len(models) == 1
    assert models[0].object == "model"


def test_completion(client):
    answer = client.completions.create(model="any", prompt=STORY, max_tokens=12, temperature=0)
    assert answer.object == "text_completion"
    assert answer.choices[0].text
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.completion_tokens <= 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_chat(client):
    answer = client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=12, temperature=0)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content is not None
    assert answer.usage.completion_tokens <= 12


@pytest.mark.parametrize("n", [1, 2])
def test_chat_stream_is_the_whole_answer(client, n):
    settings = dict(model="any", messages=MESSAGES, max_tokens=12, temperature=0.8, seed=7, n=n)
    whole = client.chat.completions.create(**settings)
    texts, reasons, usage = [""] * n, [None] * n, None
    stream = client.chat.completions.create(**settings, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        usage = chunk.usage or usage
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens


def test_completion_stream_is_the_whole_answer(client):
    settings = dict(model="any", prompt=STORY, max_tokens=20, temperature=0)
    whole = client.completions.create(**settings).choices[0].text
    pieces = [chunk.choices[0].text for chunk in client.completions.create(**settings, stream=True)]
    assert len(pieces) > 1
    assert "".join(pieces) == whole


def test_two_choices_of_one_seed_differ(client):
    answer = client.completions.create(model="any", prompt=STORY, max_tokens=24, temperature=1.5, seed=1, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].text != answer.choices[1].text


def test_several_prompts(client):
    prompts = [STORY, "The king said to the queen"]
    together = client.completions.create(model="any", prompt=prompts, max_tokens=8, temperature=0)
    alone = [client.completions.create(model="any", prompt=p, max_tokens=8, temperature=0) for p in prompts]
    assert [choice.text for choice in together.choices] == [answer.choices[0].text for answer in alone]
    assert together.usage.prompt_tokens == sum(answer.usage.prompt_tokens for answer in alone)


def test_the_second_time_all_but_one_token_is_cached(client):
    prompt = "A prompt that no other test sends, which is long enough to be worth keeping in a cache of prefixes."
    first = client.completions.create(model="any", prompt=prompt, max_tokens=8, temperature=0)
    second = client.completions.create(model="any", prompt=prompt, max_tokens=8, temperature=0)
    assert second.usage.prompt_tokens_details.cached_tokens == second.usage.prompt_tokens - 1
    assert second.choices[0].text == first.choices[0].text
    assert second.timings["cache_n"] == second.usage.prompt_tokens - 1
    assert second.timings["prompt_n"] == 1
    salted = client.completions.create(model="any", prompt=prompt, max_tokens=1, extra_body={"cache_salt": "other"})
    assert salted.usage.prompt_tokens_details.cached_tokens == 0


def test_token_ids_are_the_text(client, server):
    tokens = server.post("/tokenize", {"content": STORY, "add_special": True})["tokens"]
    by_text = client.completions.create(model="any", prompt=STORY, max_tokens=8, temperature=0)
    by_ids = client.completions.create(model="any", prompt=tokens, max_tokens=8, temperature=0)
    assert by_ids.usage.prompt_tokens == by_text.usage.prompt_tokens
    assert by_ids.choices[0].text == by_text.choices[0].text
    assert STORY in server.post("/detokenize", {"tokens": tokens})["content"]


def test_stop(client):
    whole = client.completions.create(model="any", prompt=STORY, max_tokens=24, temperature=0).choices[0].text
    stop = whole[len(whole) // 2 :][:3]
    answer = client.completions.create(model="any", prompt=STORY, max_tokens=24, temperature=0, stop=[stop])
    assert answer.choices[0].text == whole[: whole.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_completion_logprobs(client):
    answer = client.completions.create(model="any", prompt=STORY, max_tokens=6, temperature=0, logprobs=3)
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs)
    for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
        assert logprob <= 0
        assert top[token] == logprob == max(top.values())  # greedy takes the best


def test_chat_logprobs(client):
    answer = client.chat.completions.create(
        model="any", messages=MESSAGES, max_tokens=6, temperature=0, logprobs=True, top_logprobs=2
    )
    for entry in answer.choices[0].logprobs.content:
        assert len(entry.top_logprobs) == 2
        assert entry.top_logprobs[0].logprob == entry.logprob


def test_logit_bias(client):
    answer = client.completions.create(
        model="any", prompt=STORY, max_tokens=3, temperature=0, logit_bias={"50": 100}, extra_body={"return_tokens": True}
    )
    assert answer.choices[0].token_ids == [50, 50, 50]


def test_errors(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="any", prompt=STORY, temperature=-1)
    assert error.value.code == "sampling_bad_parameter"
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="any", prompt=[10**9])
    assert error.value.code == "request_token_out_of_range"
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="any", prompt="word " * 200_000)
    assert error.value.code == "request_prompt_too_long"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(
            model="any", messages=MESSAGES, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]
        )
    assert (error.value.code, error.value.param) == ("request_unsupported", "tools")
    with pytest.raises(openai.NotFoundError) as error:
        client.embeddings.create(model="any", input="x")
    assert error.value.code == "http_not_found"


def test_metrics(client, server):
    client.completions.create(model="any", prompt=STORY, max_tokens=1)
    text = server.get("/metrics")
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(samples["stemma_tokens_generated_total"]) >= 1
    assert float(samples['stemma_requests_total{end="finished"}']) >= 1
    assert float(samples["stemma_requests_running"]) == 0
