"""What diagnostic sentences speak of, and what they say of it: the phrases of each.

Written in their plain form and matched by their stems; see `lexicon` for how. A table is
a way of saying one thing, whoever says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnout.engine.classify.verdict import Feature as F

FEATURES: Final[Mapping[F, str]] = {
    F.IMAGE: """image | vision | multimodal | multi modal | pixel | picture | photo | visual | 图片
        | 图像""",
    F.AUDIO: "audio | speech | voice | wav | 音频 | sound",
    F.VIDEO: "video | 视频",
    F.FILE: """unsupported mime type | invalid mime type | file | pdf | document | attachment | docx
        | 文件 | 文档 | mime type parameter""",
    F.TOOLS: "tools | functions | web search | code interpreter | computer use | mcp | 工具 | 函数调用",
    F.TOOL_CHOICE: "tool choice | function calling config | forced tool | named tools",
    F.TOOL_SCHEMA: """input schema | tool schema | function schema | invalid schema for function
        | function parameters | parameters schema | schema for tool
        | function declarations parameters | schema of tool | property .. must have a type
        | key in parameter type | required property for function | anyof key""",
    F.STRUCTURED_OUTPUT: """response format | json schema | json mode | json object | json output
        | structured output | structured response | guided decoding | guided json | grammar
        | response mime type | output format | response schema | output schema
        | output config format | text format | controlled generation | constrained decoding
        | guided generation""",
    F.STREAMING: "stream | server sent event | sse | 流式",
    F.REASONING: "reasoning | thinking | thought | encrypted content | 思考",
    F.ROLE: """role | system message | system prompt | system instruction | developer instruction
        | developer message | prefill | message order | system parameter | 角色""",
    F.ENDPOINT: """~ | chat model | responses api | chat completions | chatcompletion operation
        | completions api | completion operation | embeddings operation | chat api | generate api
        | generate content | embedding model | batch api | interactions api | converse api
        | invoke model api | live api | messages api | endpoint | api version | inference type
        | this operation | text completion | realtime api | requested uri | http method
        | support generate | support chat | support embeddings | support completion | support insert
        | this api""",
    F.OTHER: """modality | content part | content type | content block | input type | data type
        | feature | functionality | capability | 模态""",
}
"""The features of a request. `other` is what tells only that it is one."""

VAGUE: Final = (F.OTHER, F.ENDPOINT)
"""Said beside another feature, these tell where or of what sort it is, not what was refused."""

SUBJECTS: Final[Mapping[str, str]] = {
    # the conversation's size
    "context": """maximum model length | max model length | max model len | max seq len
        | maximum sequence length | max sequence length | max position embeddings | context
        | window size | token window | 上下文""",
    "input_size": """value length | expected max length | text bytes | total bytes | prompt length
        | input length | length of .. input | length of .. prompt | length of .. messages
        | input size | prompt size | max input | maximum input | max prompt | maximum prompt
        | input limit | prompt limit | input token limit | input token budget
        | model's maximum length | sequence length | prompt token limit | total length | 输入""",
    "tokens": "inputs must have | tokens",
    "input": """prompt | input | request | messages | conversation | history | payload | body
        | entity | text | query | contents | instructions""",
    "input_words": """prompt | input | messages | conversation | total of | history
        | your request has | your request contain""",
    "message_size": "message larger than max",
    "output_cap": """maximum tokens you requested | requested maximum tokens | max tokens
        | max new tokens | output tokens | completion tokens | max gen len | num predict
        | maximum output | tokens to generate | generated tokens | max length | output limit
        | requested output | tokens that can be generated | completion length | output length""",
    "long_context": "long context | 1m context | extended context",
    # what else has a size, is exceeded or runs out
    "part": """tool | page | mime | header | cookie | cookies | schema | function | name | id | enum
        | property | array | item | element | uri""",
    "small_part": "tool | page | mime | header | cookie | enum | property | array | item",
    "not_size": """time | timeout | timed | deadline | second | stop | took | taking | queue
        | waited | response | url | uri | retries | attempts | number of requests | max requests
        | pending requests | key | cache | rate | quota | connection | budget | cost | credit
        | depth | recursion""",
    "other_sizes": "content length | in flight | mismatch | announced | trial | header | remaining",
    "timing": "timed out | timeout | deadline | took longer | # second | time budget",
    "memory": "memory | vram | ram",
    "infrastructure": """service | server | backend | lambda | pulling | timeout | connection
        | memory | disk | socket | open files | cpu | gpu | cluster | pod | container | kubernetes
        | storage | cache | processor""",
    # the request, and its parts
    "conversation": "conversation | history | messages | first content",
    "turn": "turn",
    "text_only": "text | string content | strings",
    "part_kind": """image | audio | video | file | content | text | document | tool result | role
        | developer | thinking | reasoning | part""",
    "media": """image | file | audio | video | pdf | document | base64 | url | media | data uri
        | attachment | picture | multimodal content""",
    "file_kind": """unsupported image | unsupported file | unsupported audio | unsupported video
        | image format | file format | audio format | video format | file type | image type
        | file extension | unsupported media""",
    "reference": """cachedcontent | previous response | item | conversation | assistant | thread
        | file | vector store | response with id | container | prompt with id | cache""",
    "json": "json | body | payload",
    "schema": "schema",
    "arguments": "arguments",
    "tool_pairs": """tool call | tool use | tool result | tool message | function call
        | function response | tool output | call id | tool response | role tool""",
    "history_ids": "tool use id | call id | tool call ids",
    "signature": """type reasoning | reasoning details | signature | encrypted content
        | thinking block | redacted thinking | encrypted reasoning | reasoning item
        | reasoning content""",
    "combined": "features | modes | capabilities | parameters | options | both",
    # the model, and where it is served
    "model": """model | deployment | inference profile | engine | on demand throughput | checkpoint
        | 模型""",
    "served_at": "provider | endpoint | deployment",
    "no_endpoint": "no endpoints | no providers | no allowed providers",
    "answer_of": "upstream response | response from",
    # who asks, with what, and what for
    "account": """organization | organisation | account | country | region | territory | ip
        | project | tenant | workspace | user | identity | location | referer | referrer
        | android client | ios client | 账户 | 账号""",
    "region": """unsupported countries | from your country | in your country | your region
        | your location | country region or territory | supported countries | user location
        | unsupported region""",
    "credential": """api key | access key | subscription key | security token | access token
        | api token | credential | authentication | oauth | ak sk | iam | bearer token
        | authorization | apikey | token provided | signature we calculated | jwt | key provided
        | secret key | auth | service account | virtual key | master key | signing key
        | request signature | provided token | signature in header""",
    "iam": """iam user | iam role | not authorized to perform | explicit deny
        | identity based policy""",
    "money": """credit | balance | billing | budget | quota | payment | subscription | points | plan
        | usage limit | key limit | monthly limit | weekly limit | prepaid | fund | spend | arrears
        | invoice | free tier | trial | wallet | dollar | usage cap | hard limit | card
        | pre consume | 额度 | 余额 | hard cap | eur | usd | paid""",
    "shut_out_by": "referer | referrer | android client | ios client | ip address | waf | firewall",
    "policy": """content filter | content policy | content management policy | moderation
        | usage guidelines | usage policy | responsible ai | guardrail | acceptable use
        | terms of service | policy violation | community guidelines | safety | biology | jailbreak""",
    "spoken": """input | prompt | content | response | output | message | text | request | image
        | completion | generation | candidate | answer | data""",
}
"""What else a sentence may be about."""

SKIPPED: Final = """schema violation | constraint violation | violates constraint | case sensitive
    | foreign key violation | access violation | code point | floating point | user agent
    | user field | content type header | content policy fallback | context window fallback
    | context length exceeded behavior | truncate prompt tokens | search context size
    | context deadline | context canceled | context cancelled | context manager | open files
    | retry budget | error budget | file search | prediction stream | model with response stream
    | reasoning model | reasoning models | thinking model | thinking models | image model
    | vision model | audio model | speech model | video model | image generation model
    | vision models | when thinking is enabled | thinking is enabled | for this reason
    | tools models | stream of | file descriptor | input validation error | server side tool
    | image generation | system error | role based"""
"""Names of other things, and circumstances: their words say nothing of what was refused."""

SAYINGS: Final[Mapping[str, str]] = {
    # of a size
    "exceeds": """exceed | than .. context | than .. limit | than .. maximum | than .. length
        | too long | too large | too big | longer than | larger than | bigger than | over the limit
        | over limit | overflow | beyond .. limit | beyond .. maximum | too lengthy | above .. limit
        | above .. maximum | surpass | over the maximum | over capacity | past the limit
        | out of context | 超过 | 超出 | 过长 | 超长 | 过大 | 超限""",
    "too_much": """greater than | more than | not fit | too many | full | no room | not enough room
        | not enough space | insufficient space | higher than | no space | can not accommodate
        | not .. hold | too much""",
    "at_most": """maximum .. # | # .. maximum | limit .. # | # .. limit | max .. # | at most
        | up to # | must be < | must be <= | must be less than | must be smaller | must have less
        | must have fewer | must be fewer | # > # | no more than | not more than | less than #
        | <= # | must not exceed | maximum allowed | maximum is | limit is | limited to # | only #
        | smaller than | supports # | between | window of # | size of # | configured .. #
        | window .. is # | size .. is # | length .. is # | only takes #""",
    "bounded": "should be",
    "reduce": """reduce | shorten | shorter | truncate | compact | trim | smaller prompt
        | fewer tokens | start a new conversation | start a new chat | new session | compress
        | decrease .. input | smaller input | less text | 缩短 | 减少""",
    "no_room": "got minus #",
    # of a limit, and of money
    "rate_limited": """rate limit | rate limiter | ratelimit | too many requests | concurrency
        | concurrent | throttle | per min | per minute | per second | per day | per hour
        | each minute | tpm | rpm | tpd | rpd | resource exhausted | resource .. exhausted
        | too many tokens please | too frequent | too quickly | slow down | too many connections
        | qps | quota per | request rate | burst | exceeded .. rate | call minute | request minute
        | calls second | 频率 | 限流 | 过快 | 并发 | 每分钟 | 请求过多 | 速率限制 | 请求过于频繁
        | request a minute | token a minute | daily .. limit | last minute | last hour
        | in flight requests | parallel requests | hourly""",
    "soon": """wait # second | wait # s | again after # second | wait # minute | again in #
        | retry in # | retry after #""",
    "seconds": """in # second | in # s | in # sec | in # ms | wait # second | after # second
        | after # s""",
    "not_soon": "hour | day | month | week | h",
    "far": "in # hour | in # h | after # hour | after # h | in # day | after # day",
    "spent": """not .. have any | insufficient | exceed | depleted | used up | ran out | out of
        | exhausted | reached | overdue | not enough | no quota | negative | upgrade | purchase
        | not active | expired | required | past due | add .. credits | top up | recharge
        | no credits | suspended | unpaid | inactive | over .. limit | over budget | hit .. limit
        | not .. included | used all | consumed | no remaining | have no | no available | below
        | check your plan | delinquent | not .. afford | can only afford | low | ended
        | cannot afford | 不足 | 欠费 | 充值 | 用尽 | 用完 | 已耗尽 | only available
        | not .. available | lower than""",
    "money_gone": """credit .. depleted | credit .. exhausted | payment required
        | insufficient credit | insufficient balance | insufficient funds | insufficient quota
        | insufficient user quota | credit balance | 余额不足 | 欠费 | 充值 | 额度不足 | 额度已用尽
        | arrears | overdue | good standing | billing hard limit | exceeded .. current .. quota
        | usage limit | spending limit | purchase .. credits | plan not support
        | plan does not support | not .. included in .. plan | not .. support .. plan | dunning
        | out of extra usage | out of usage | invalid payment | payment instrument | payment method
        | calls month | per month | monthly limit | monthly quota | monthly tokens""",
    "money_or_tier": """extra usage | beta | surcharge | tier | subscription | not available
        | not enabled | required | upgrade | credits | plan""",
    # of who asks
    "not_let_in": """invalid | incorrect | missing | not valid | expired | revoked | no | denied
        | fail | wrong | not allowed | not found | required | disabled | unable to | could not
        | not .. recognized | rejected | malformed | unknown | unauthorized | not .. authorized
        | must be | inactive | cannot be | not .. verified | not .. match | blocked | not .. exist
        | bad | provide | does not have | insufficient | not .. permitted | not configured | deleted""",
    "to_verify": "verify | verification",
    "shut_out": """not supported | deactivated | suspended | blocked | disabled | not allowed
        | not authorized | not permitted | not .. available | banned | terminated | restricted
        | unsupported | locked | not .. supported | not .. active | forbidden | not .. allowed
        | not .. have permission""",
    "no_permission": """only accepts requests from | restricted to authorized | permission denied
        | not authorized | unauthorized | access denied | not .. have permission
        | do not have access | not .. have access | not allowed to access | not allowed to use
        | not allowed to perform | not allowed to invoke | no permission | insufficient permission
        | forbidden | not .. permitted to | lacks permission | not .. authorized
        | missing permission | permission .. required | insufficient .. scope | missing scope
        | no access | must be authenticated | not authenticated | invalid token | user not found
        | 无权限 | 没有权限 | authentication error | not allowed to create | not allowed to call
        | not allowed to make""",
    # of what the request says
    "offends": """was flagged | flagged as | flagged by | flagged for | blocked by content
        | blocked by our | filtered | as a result of our safety | inappropriate | prohibited content
        | unsafe | harmful | sensitive | violates | violation | was blocked | blocked due
        | disallowed | objectionable | prohibited use | not allowed by our | sexual | against our
        | rejected as a result | risky | illegal content | refused to | prohibited by
        | content that is not allowed | content not allowed | is not allowed by""",
    "sensitive": """keyword .. detected | guardrail failed | sensitive words | new sensitive
        | content exists risk | content risk | input sensitive | output sensitive | content filter
        | content management policy | safety system | usage guidelines | responsible ai
        | content policy | jailbreak | recitation | usage policies | regex guardrail
        | guardrail intervened | guardrail violation | guardrail checks | blocked by .. guardrail
        | content safety | safety check | threat detected | prompt injection | injection detected
        | keyword banned | banned word | pii detected | moderation failed | 敏感 | 违规 | 违反
        | 不安全 | 合规 | real people | real person | malware""",
    # of a feature or a setting
    "cut_short": "higher max tokens | could not finish the message | increase max tokens",
    "reasoning_value": "adaptive | thinking type",
    "refuses_plainly": """not .. support | unsupported | only .. support | support .. only
        | no .. support | not multimodal | not a .. model | not .. capable | missing data required
        | 不支持 | 仅支持 | 只支持 | that support | model requires | not .. enabled | not .. accept
        | only accepts | incompatible | not .. implemented | unimplemented""",
    "refuses": """model requires | missing data required | missing required .. header
        | not .. support | unsupported | only .. support | support .. only | no .. support
        | that support | can handle | supporting .. parameters | not .. enabled | not .. allow
        | not .. permit | not .. available | not .. accept | not .. accessible | not .. compatible
        | not .. capable | not .. configured | not .. implemented | unimplemented | not work with
        | only works with | only compatible with | incompatible | cannot be used
        | cannot be combined | cannot be mixed | cannot be set | cannot handle | cannot process
        | cannot read | cannot use | not .. use | not .. handle | not .. combine | not .. mix
        | not .. serve | disabled | unable to handle | no support for | lacks | without support
        | not .. have .. capability | not .. understand | only available | enabled only
        | available only | only for | only enabled | only allowed | only valid | not yet
        | not a .. model | not multimodal | not .. recognized | does not recognize | forbidden
        | only accepts | requires .. model | not .. provide | switched off | turned off | prohibited
        | not .. include | does not have | not .. usable | removed | 不支持 | 不允许 | 无法 | 不能
        | 未开通 | 不可用 | 仅支持 | 只支持 | no .. on this | is off""",
    "only": """only supports | only accepts | supports only | must be a string | must be string
        | expects a string | only .. supported | only allow | accepts only | only .. text
        | only text""",
    "together": """cannot be combined | not supported together | cannot be mixed | used together
        | mutually exclusive | at the same time | simultaneously | not both | in combination
        | cannot be used with | same request | in conjunction | conflict""",
    "mandatory": """only works in | mandatory | cannot be disabled | must be enabled
        | must be disabled | required | cannot disable""",
    "required_value": """must be set to | must be true | must be enabled | set stream to
        | only .. supported in streaming | requires streaming | required to be | must be used
        | only .. streaming | use streaming | is required | strongly recommended""",
    "unavailable": "unavailable | not available",
    "renamed": "moved to | use .. instead | renamed to | replaced by",
    "unknown_field": """unsupported parameter | unknown parameter | unrecognized parameter
        | unsupported field | unknown field | unrecognized field | unrecognized request argument
        | unsupported argument | unexpected keyword argument | argument not supported | extra inputs
        | extra fields | unknown name | additional properties are not allowed | unknown key
        | unrecognized keys | unexpected property | property .. unsupported | not .. recognized
        | unrecognized argument | unknown argument | unexpected field | unpermitted parameter
        | extraneous key | unsupported request | unexpected parameter | does not support parameter""",
    "wrong_setting": """too large | too high | too low | too small | invalid | cannot | unknown
        | unrecognized | unexpected | deprecated | exceed | maximum allowed | supports up to
        | supports only | at most | extra inputs | should be | must | can only | only be
        | a maximum of | greater than | less than | no longer supported | between | range
        | maximum value | not .. recognized | could not .. parse | bad value | illegal | at least
        | only # | expected | does not match | not permitted | one of | 非法 | 无效 | 错误 | 必须
        | 只能 | 范围 | 取值 | limited""",
    "wrong_endpoint": """is not for chat | unexpected endpoint | unknown endpoint | invalid endpoint
        | unknown request url""",
    "tool_parser": """requires enable | requires jinja | requires tool call parser | use jinja
        | to be set | must be defined when""",
    "chat_template": """prompt must start with | jinja | raise exception | chat template
        | template error | prompt template rendering""",
    "template_bug": "dict object",
    # of a part, a role, a schema, a piece of history
    "unknown_part": """unexpected item | unexpected content | cannot unmarshal array
        | cannot unmarshal object | unknown variant | unknown part type | invalid content type
        | unknown content type | unsupported content type | any variant of | invalid part type
        | unsupported part type | does not match any | input tag | unsupported content part""",
    "wrong_part": """invalid value | unexpected type | unknown type | invalid type
        | unsupported type | unrecognized type | expected .. text | expected a string | must be text
        | must be a string | type mismatch""",
    "unknown_role": """unexpected role | invalid role | unknown role | unsupported role
        | incorrect role | invalid message role | unexpected message role""",
    "wrong_order": """valid role | incorrect role | invalid role | invalid message role
        | unexpected message role | unknown role | not one of | role information | unexpected role
        | wrong role | alternate | after role | must start with | must end with | must begin with
        | should be the first | must be the first | must be first | at the beginning
        | should end with | should start with | must be the last | last message must
        | first message must | cannot be the last | cannot be the first | after .. role
        | consecutive | final position | must precede | must come first | first turn | last turn
        | only .. first | at the end of | in a row | should be system | should be user
        | must be system | must be user | or more assistant messages | 交替 | expected last role
        | comes immediately after | must be from | must have role | must not be from
        | must not be the | must be a user message | top level system | no user query
        | no user message""",
    "wrong_value": """invalid | incorrect | unexpected | unknown | unsupported | unrecognized
        | must be | not valid | one of | expected | not allowed""",
    "wrong_schema": """must | missing | required | not permitted | not support | invalid | should be
        | cannot | not allowed | unsupported | not valid | too deep | too many | exceed | unknown
        | expected | failed to | only .. supported | too large | too complex | simplify""",
    "wrong_pattern": """match pattern | match the pattern | must match | should match
        | invalid characters | too long | must be a | at most | length | must start with
        | begins with | not match | regular expression pattern""",
    "not_verified": """must be | without | invalid | could not be verified | missing | mismatch
        | not .. valid | not .. decrypt | could not .. decrypt | could not .. verify
        | cannot .. modified | not .. match | corrupted | expected | cannot be modified | required
        | not found | failed | verification | must start with | not .. verified""",
    "minted_reasoning": "begins with rs | starts with rs",
    "minted_elsewhere": "id that begins with | id that starts with",
    # of what is broken for every target
    "broken": """decode | corrupt | damaged | could not be downloaded | failed to download
        | not .. match the provided""",
    "undecodable": """download | fetch | decode | parse | corrupt | invalid base64
        | could not process | unable to process | truncated | unreachable | not a valid
        | cannot identify | failed to load | could not load | failed to open | unable to load
        | failed to read | broken | not .. retrieve | inaccessible url | unable to access
        | cannot open | failed to process .. url | invalid url | could not be loaded | invalid image
        | damaged | failed to get | not found | empty | not .. valid | not .. active state
        | not .. accessible""",
    "plainly_gone": "not found | no such model | not exist",
    "gone": """not found | does not exist | expired | no longer exists | not .. exist | unknown id
        | was deleted | cannot be found | no such""",
    "missing": """required key | got null | missing required | field required | required field
        | non empty | is blank | must be provided | is missing | must be specified | not specified
        | is required | be empty | missing field | must have .. message | at least one message
        | at least one element | at least one content | must contain | empty content | too short
        | must exist | not be null | 不能为空 | 缺少""",
    "emptiness": "empty tool calls | empty content | empty message | empty text | empty input",
    "field_required": "field required | required field",
    "null_value": """got null | is null | received null | got undefined | received undefined
        | got an integer | got integer | got a number | got a boolean | got a list""",
    "wrong_type": """should be of type | of type string but | a valid integer | a valid number
        | a valid boolean | must be an integer | must be a number | must be a boolean
        | must be of type | not of type | should be a number | should be an integer
        | expected an integer | expected a number | expected a boolean | cannot unmarshal string
        | must be an object | must be a string or an object | must be an array | must be a list
        | must be a dict | expected application json""",
    "unparsable": """could not parse | cannot parse | failed to parse | invalid json | malformed
        | not valid json | unexpected token | unexpected end | parse error | unable to parse
        | parse .. json | error parsing | failed to decode | expecting value | invalid character
        | unexpected character | json decode error | json parse | invalid .. json
        | must be valid json | must be in json""",
    "unpaired": """must be followed by | did not have | without | corresponding | respond to
        | response to | preceding | immediately after | equal to the number | equal to number
        | exceed the number of | no tool output | no output | matching | mismatch | unexpected
        | no tool call found | not found | each | unmatched | missing | orphan | immediately before
        | previous message | duplicate | must be unique""",
    "not_named": """function named | not .. specified in | tool named | not found in tools
        | function not found | tool not found | not provided in tools | names function""",
    "tools_absent": """only allowed when tools | no tools | without tools | while providing tools
        | requires tools | when tools are not | must be specified when | when tools are specified""",
    "json_word": "the word json",
    # of the model, and of load
    "not_there": """not found | not exist | unknown model | no longer available | deprecated
        | retired | decommissioned | not deployed | not available | not supported
        | unsupported model | not accessible | invalid model | not a valid model | not loaded
        | end of life | shut down | not .. exist | not .. found | no such model | not .. available
        | not .. deployed | not .. supported | unrecognized | unavailable | not recognized
        | no model | not .. enabled | has been removed | unable to access | sunset
        | no longer supported | not .. valid | cannot find | could not find
        | failed to satisfy constraint | not .. servable | not .. served | identifier is invalid
        | model is invalid | name is invalid | id is invalid | not configured | not registered
        | discontinued | not .. hosted | not .. loaded | legacy | disabled | 不存在 | 下线 | 未找到
        | 没有找到""",
    "unhosted": """could not load model | unsupported model type | unknown model architecture
        | llm provider not provided | invalid provider | unknown provider | no such file
        | no healthy deployments | too large to be loaded | use case details
        | endpoint .. not running | start the endpoint | deployment .. not running
        | not found for account | publisher model .. not found | no deployment | no such deployment
        | not .. on demand throughput""",
    "any_left": "found | available",
    "no_channel": """no auth available | auth unavailable | no available channel | 无可用渠道
        | no channel available""",
    "own_output": """model response | failed to call | failed_generation | tool use failed
        | tool call validation failed | model output | generated tool call | malformed function call
        | failed to generate | model produced""",
    "load": """degraded | runner | exited | enough .. memory | crash | terminated unexpectedly
        | killed | upstream request failed | server error | overloaded | temporarily unavailable
        | try again later | currently loading | loading model | timed out | no available channel
        | service unavailable | bad gateway | high demand | high load | heavy load | maintenance
        | not ready | warming up | cold start | unexpected error | timeout | busy
        | connection refused | connection reset | no healthy | something went wrong | retry later
        | try again in | is offline | not enough memory | out of memory | cuda
        | currently experiencing | still loading | being loaded | starting up | unable to reach
        | econnrefused | circuit breaker | no instances | no worker | capacity | 繁忙 | 稍后 | 过载
        | 超时 | 负载 | connection error | response payload size | response size""",
}
"""What is said of it."""
