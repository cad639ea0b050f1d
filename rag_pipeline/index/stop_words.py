"""Words of a query that say nothing about what it looks for.

They stay in the index, so that a query of nothing else still finds its words; a query that holds any other word is
scored without them. Only closed classes: articles, pronouns, prepositions, conjunctions, auxiliaries and what asks a
question, but no negations, which are part of flags and of what people look for. In documentation "how do I" is rarer
than the word that matters, so that BM25 would rank by it. A language has a list where one was measured and did no harm
(docs/adr/0014): those of Persian, Polish, Portuguese and Spanish did.
"""

from __future__ import annotations

_WORDS = {
    "english": """
        a an the this that these those
        i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
        what which who whom whose when where why how
        am is are was were be been being do does did doing done have has had having can could may might must shall should
        will would
        and or but if then than as so because while until
        of in on at by for from to with without into onto about between through during against under over
        there here just too also very any some such
        s t ll re ve don doesn didn isn aren wasn weren won wouldn couldn shouldn hasn haven hadn
    """,
    "french": """
        le la les l un une des du de d au aux à en dans sur sous par pour avec sans chez vers entre pendant depuis
        je j tu il elle on nous vous ils elles me m te t se s moi toi lui leur leurs mon ma mes ton ta tes son sa ses notre
        nos votre vos ce cet cette ces c ça ceci cela celui celle ceux celles y
        qui que qu quoi quel quelle quels quelles lequel laquelle lesquels lesquelles dont où quand comment pourquoi combien
        est est-ce sont es suis sommes êtes était étaient être été sera seront serait
        a ai as avons avez ont avait avaient avoir
        peut peuvent peux puis pouvez pouvons pouvoir dois doit doivent devez devoir fait faire faut
        et ou mais si donc car ni comme lorsque puisque parce afin alors ainsi aussi très plus
    """,
    "german": """
        der die das den dem des ein eine einen einem einer eines
        ich mich mir mein meine meinen meinem meiner du dich dir dein deine er ihn ihm sein seine seinen seinem seiner sie
        ihr ihre ihren ihrem ihrer es wir uns unser unsere euch man sich
        dieser diese dieses diesen diesem jener jene jenes was wer wen wem wessen welche welcher welches welchen welchem wann
        wo wohin woher warum wieso weshalb wie wieviel womit wofür wozu
        ist sind war waren bin bist sein gewesen wird werden wurde wurden worden habe hast hat haben hatte hatten kann kannst
        können könnte konnte muss müssen musste soll sollen sollte darf dürfen will wollen mag möchte
        und oder aber denn wenn dann als ob dass weil da damit sowie
        in im an am auf aus bei beim mit nach von vom vor zu zum zur für durch über unter um gegen ohne zwischen während bis
        seit hier dort auch sehr so nur noch schon
    """,
    "russian": """
        и в во на с со к ко о об от до за из у по при для через над под между без про
        я меня мне мной ты тебя тебе он его ему им она её ее ей оно мы нас нам вы вас вам они их ими себя свой своя свои
        мой моя мои твой наш наша ваш этот эта это эти этого этой этом этих тот та то те того той том тех
        что чего чему чем кто кого кому кем какой какая какое какие каких какого который которая которое которые которых
        которого где когда куда откуда почему зачем как сколько чей ли
        был была было были быть есть будет будут могу может можем можете могут можно должен должна должны
        а но или если то что чтобы так как же бы потому также тоже ещё еще уже
    """,
    "turkish": """
        ve veya ya da de ile için gibi kadar göre ki ama fakat ancak çünkü eğer ise hem
        bir bu şu o bunu bunun buna bunlar onu onun ona onlar onların ben beni bana benim sen sana senin biz bizim siz sizin
        kendi kendisi ne neyi neye nedir neden niçin niye nasıl nerede nereye nereden hangi hangisi kim kimi kime kimin
        kimdir kaç mı mi mu mü mıdır midir mudur müdür
        olan olarak olup olduğu oldu olur oldular vardır idi edilir edilen eder etti etmek en daha çok her
    """,
}

STOP_WORDS: dict[str, frozenset[str]] = {language: frozenset(words.split()) for language, words in _WORDS.items()}
"""By language; a language that is missing has none."""
