"""Function words by which a language is known.

Words that nearly every text of a language holds and that few texts of the other languages hold. Words that several
languages share are listed with each.
"""

from __future__ import annotations

import unicodedata

_WITH_STEMMER = {
    "arabic": """
        في من على إلى أن هذا هذه التي الذي عن مع كان ما أو كما بعد قد بين لا هو هي ذلك كل إذا لم يمكن غير
        يجب
    """,
    "armenian": """
        է են որ այս մի համար հետ նրա ից ու կամ նաեւ իր որը եւ չէ մեջ եք պետք ոչ ձեր
    """,
    "basque": """
        eta da ez bat ere dira du izan baina edo beste egin den zen bere dute hau honek dela ditu behar zure
    """,
    "catalan": """
        el la i de que en un els les amb per una del és al va com més seva ser però aquest aquesta no s'ha
        té o si
    """,
    "czech": """
        a je se v na že to s z do o i jako by pro jsem ale jsou který nebo není být při jen tento pokud jste
        této
    """,
    "danish": """
        og i at det er en af til på med for den der ikke som et har de var blev også efter hvad nogle kan
        din eller denne fra skal dette
    """,
    "dutch": """
        de het een en van in is dat op te zijn met voor niet aan er ook als bij naar deze wordt of kan u om
        dit worden
    """,
    "english": """
        the of and to in a is that for it was on are as with be by this from at or an which you not have has
        can your will if
    """,
    "esperanto": """
        la kaj de en estas ne por al kun tio ĉi kiu estis li ili ankaŭ el pri sed vi aŭ ĉu ol oni
    """,
    "estonian": """
        ja on ei see et ta kui ka aga oma mis nii või siis olid tema ning kes selle pole mitte peab ole teie
        sellel
    """,
    "finnish": """
        ja on ei se että hän oli mutta ovat kun myös tai joka ole niin sen kanssa jos tämä voi voit olla
        tämän sinun oleva
    """,
    "french": """
        le la les de des et en un une du est que dans pour qui sur pas au par plus ce avec il sont ou vous
        cette n'est être
    """,
    "german": """
        der die das und in den von zu mit ist nicht ein eine im für auf dem des sich als auch es an wird
        oder sie einen werden kann dieser
    """,
    "greek": """
        και το να της του η ο την των με για που από στο είναι σε τα τον ότι στην δεν ένα μια αυτό ή θα οι
    """,
    "hindi": """
        के में की है और को का से ने पर यह कि हैं भी एक था इस लिए नहीं या हो कर आप किया जा तो
    """,
    "hungarian": """
        a az és hogy nem is egy ez meg van volt csak mint de ha azt vagy ki el már lehet kell ezt erre nincs
    """,
    "indonesian": """
        yang dan di dengan untuk dari ini itu dalam tidak pada adalah ke akan atau oleh juga ada bisa dapat
        anda sebuah jika boleh
    """,
    "irish": """
        an na agus ar is tá go le bhí ag as mar sé sa seo don níl leis chun faoi nó ní do atá gach féidir
    """,
    "italian": """
        il la di che e è in un per una non sono con del si da le della nel come anche più gli i al questo o
        se dei essere
    """,
    "lithuanian": """
        ir yra kad su iš į bet tai kaip buvo nuo apie jis po dėl ar už jo šis šio turi nėra būti jūsų arba
        gali
    """,
    "nepali": """
        छ र को मा छन् ले यो पनि गर्न भएको लागि हो थियो गरेको तर हुन्छ वा यस तपाईं छैन एक
    """,
    "norwegian": """
        og i det er en av til på med for den ikke som et har de var ble også etter hva noen fra å kan du
        eller denne skal
    """,
    "persian": """
        و در به از که این را با است برای آن یک می تا شود بر هم شما یا باید های نمی نیست کند شده
    """,
    "polish": """
        i w na z do się nie to że jest o jak po od za ale dla przez są oraz lub tego być jako czy ma ten tym
    """,
    "portuguese": """
        de que da em um para é com não uma os na por mais dos como mas foi ao são você ou também ser o a
        este se esta no do
    """,
    "romanian": """
        și de în a la o un cu pe care nu este din că mai pentru fi sunt au să ce sau acest această se poate
        prin ai şi
    """,
    "russian": """
        и в не на что с по это как для из к от он его но за или бы был так если вы же может этот быть при
        все
    """,
    "serbian": """
        и је у на да се за од су са као није или који што ово би бити овај нема може i je u na da se za od
        su sa kao nije ili koji što ovo bi biti ovaj nema može
    """,
    "sesotho": """
        le ea ka ho e ba ha tse o a ke hore tsa eo oa ena bona empa
    """,
    "spanish": """
        de la que el en y a los se del las un por con no una para es al lo como más su está pero o este esta
        si ser puede
    """,
    "swedish": """
        och i att det som en på är av för den med till inte ett om har de men var också eller du kan från
        detta inga måste
    """,
    "tamil": """
        ஒரு என்று மற்றும் இந்த என்ன அது உள்ள இது ஆனால் அவர் போன்ற வேண்டும் என அல்லது நீங்கள் இல்லை
    """,
    "turkish": """
        ve bir bu için ile da de olarak olan daha çok gibi en kadar sonra ne mi olduğu ancak veya değil her
        var bunu şu değildir
    """,
    "yiddish": """
        און די דער אין איז פון צו מיט דאָס ניט ער זיי אויף האָט נישט וואָס
    """,
}

_WITHOUT_STEMMER = {
    "afrikaans": """
        die en is nie van in te het dat vir met op wat ek aan om hierdie moet sal asook of deur as word
        nog u
    """,
    "albanian": """
        të dhe në e i për me një nuk është që nga se kjo ky si do ose mund ka duhet u
    """,
    "azerbaijani": """
        və bir bu üçün ilə da də olan daha çox kimi ən qədər sonra nə ki ya deyil hər var edin olmalıdır
    """,
    "belarusian": """
        і ў у не на што з да па гэта як для ад яго але ці або каб быць гэты
    """,
    "bengali": """
        এবং এই একটি করে না জন্য থেকে ও যে হয় করতে এটি আপনি আপনার কিন্তু বা এর তা
    """,
    "bulgarian": """
        и в на е за да се от не с като по са че това към или който този може трябва няма ако
    """,
    "galician": """
        o a de que e en un unha non é para con por os as do da no na se máis como ou esta este ten ser
    """,
    "hebrew": """
        של את על לא זה עם כי הוא גם או היא אם כל אבל יש כדי זו אין ב אנא ניתן להיות
    """,
    "icelandic": """
        og að er í á sem ekki með til um það en við þetta þessi hefur fyrir af eða verður ef þú
    """,
    "kazakh": """
        және бұл үшін мен бен бір емес немесе да де болып бар деп болуы керек осы
    """,
    "latvian": """
        un ir ka ar no uz par lai nav šis vai kas tas ko bet kā ja jau būt šo jūsu šī jābūt
    """,
    "macedonian": """
        и во на е за да се од не со како по дека ова или кој што оваа може нема овој треба
    """,
    "marathi": """
        आहे आणि या हे ते च्या नाही एक मध्ये करा साठी किंवा आहेत हा ही असणे जर
    """,
    "mongolian": """
        нь бол энэ болон ба байна юм вэ уу гэж бас эсвэл та байх биш хэрэв тул оруулна
    """,
    "slovak": """
        a je sa v na že to s z do o i ako by pre som ale sú ktorý alebo nie byť pri len tento ak ste tejto
    """,
    "slovenian": """
        in je se v na da za so z ne ki kot ali tudi pa ni bi od po pri lahko vaš biti ta če to
    """,
    "swahili": """
        ya wa na kwa ni katika la za hii kama lakini si cha vya yako hiyo hakuna tafadhali au huu
    """,
    "tagalog": """
        ang ng sa na mga ay at hindi ito ko ka may para kung siya nang isang
    """,
    "ukrainian": """
        і на що не з до та це як для від є за але його або ви щоб цей у в бути при якщо може
    """,
    "urdu": """
        کے میں کی ہے اور سے کا کو نے پر یہ کہ ہیں بھی ایک کر آپ نہیں یا
    """,
    "uzbek": """
        va bu uchun bilan bir ham emas yoki bo'lgan kerak mumkin siz agar ushbu
    """,
    "vietnamese": """
        và của là các có trong được một cho không với này những để đã bạn thì hoặc khi phải
    """,
    "welsh": """
        y yr a i o yn ar am mae ac wedi gan bod nid ei hwn hon os neu rhaid eich
    """,
    "yoruba": """
        ni ti àti láti fún tó sí kan tí ń pé náà bí kí wọn
    """,
}

STEMMED_LANGUAGES = frozenset(_WITH_STEMMER)
"""Those that `LexicalConfig.language` names."""

FUNCTION_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(unicodedata.normalize("NFKC", words.casefold()).split())
    for language, words in {**_WITH_STEMMER, **_WITHOUT_STEMMER}.items()
}
"""By language, case-folded; also of languages without a stemmer, which would be taken for their nearest relative."""
