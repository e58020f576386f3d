"""Everyday sentences in the languages that `data.languages` knows."""

SENTENCES = {
    "English": """
        The parcel came two days late, and nobody would tell me where it was.
        I have used this lamp for a month, and it is as bright as they said.
        My sister and her friends were happy with the room, but not with food.
        Can you send me the other one, which is a bit larger than this?""",
    "German": """
        Das Paket kam zwei Tage zu spät, und niemand konnte mir sagen, wo es
        war. Ich habe die Lampe seit einem Monat, und sie ist sehr hell. Meine
        Schwester war mit dem Zimmer zufrieden, aber nicht mit dem Essen. Wir
        werden nach der Reise auch über die Stadt schreiben.""",
    "French": """
        Le colis est arrivé avec deux jours de retard, et personne ne savait où
        il était. Cette lampe est très belle mais pas assez forte pour nous. Ma
        soeur était contente de la chambre, pas du repas. Vous pouvez nous
        écrire, car tout est fait dans la maison.""",
    "Spanish": """
        El paquete llegó con dos días de retraso y nadie sabía dónde estaba.
        Esta lámpara es muy bonita, pero no alumbra como los otros modelos. Mi
        hermana está contenta con la habitación, aunque sin desayuno. Todo fue
        rápido porque hay gente muy amable, y también una tienda.""",
    "Portuguese": """
        O pacote chegou com dois dias de atraso e ninguém sabia onde ele
        estava. Esta lâmpada não é muito forte, mas também não é cara. A minha
        irmã gostou do quarto, mas não da comida. Quando você escrever, isso
        será visto pela loja, que já foi muito boa para mim.""",
    "Italian": """
        Il pacco è arrivato con due giorni di ritardo e nessuno sapeva dove
        fosse. Questa lampada non è molto forte, ma anche gli altri modelli
        sono così. Mia sorella ha mangiato bene nella pensione della piazza.
        Non so perché hanno cambiato il nome del negozio.""",
    "Dutch": """
        Het pakket kwam twee dagen te laat en niemand wist waar het was. Ik heb
        deze lamp nu een maand en zij is niet erg sterk. Mijn zus was blij met
        de kamer, maar niet met het eten. Wij worden door de winkel ook nog
        gebeld, want er zijn veel klachten.""",
    "Swedish": """
        Paketet kom två dagar för sent och ingen visste var det var. Jag har
        haft lampan i en månad och den är inte särskilt stark. Min syster var
        nöjd med rummet men inte med maten. Vi ska också skriva till butiken
        när vi är hemma, för det är mycket som inte är bra.""",
    "Danish or Norwegian": """
        Pakken kom to dage for sent, og ingen vidste, hvor den var. Jeg har haft
        lampen i en måned, og den er ikke meget stærk. Min søster var glad for
        værelset, men ikke for maden. Vi skal også skrive til butikken, når vi
        er hjemme, for det er noget, der kan blive bedre.""",
    "Finnish": """
        Paketti tuli kaksi päivää myöhässä, eikä kukaan tiennyt, missä se oli.
        Minulla on ollut lamppu kuukauden, ja se ei ole kovin kirkas. Sisareni
        piti huoneesta, mutta hän ei pitänyt ruoasta. Kun olen kotona, niin
        kirjoitan kauppaan, että se on myös hyvin kallis.""",
    "Estonian": """
        Pakk tuli kaks päeva hiljem ja keegi ei teadnud, kus see oli. Mul on
        lamp olnud kuu aega, aga see ei ole väga ere. Õde oli toaga rahul, kuid
        toit ei olnud hea. Kui ma koju jõuan, siis kirjutan poele, et nad oma
        asju juba välja ei saada.""",
    "Polish": """
        Paczka przyszła dwa dni za późno i nikt nie wiedział, gdzie jest. Mam tę
        lampę od miesiąca, ale nie jest ona bardzo jasna. Moja siostra była
        zadowolona z pokoju, ale jedzenie było złe. Jak wrócę do domu, to
        napiszę do sklepu, że tak się nie robi.""",
    "Czech or Slovak": """
        Balík přišel o dva dny později a nikdo nevěděl, kde je. Mám tu lampu
        měsíc, ale není moc silná. Moje sestra byla spokojená, že má pokoj, ale
        jídlo bylo špatné. Když jsem přišel domů, tak jsem napsal, že to už
        nechci, protože se to kazí jako jiné, které jsou pro nás drahé.""",
    "Croatian or Serbian": """
        Paket je stigao dva dana kasnije i nitko nije znao gdje je. Imam lampu
        mjesec dana, ali nije jaka kao što su rekli. Moja sestra je bila sretna,
        ali hrana nije bila dobra. Kako sam došao kući, pisao sam im da ne
        mogu više čekati, jer su svi koji su kupili bili ljuti.""",
    "Hungarian": """
        A csomag két nappal később jött meg, és senki nem tudta, hogy hol van.
        Egy hónapja van meg a lámpa, de nem nagyon erős. A nővérem örült, mert
        szép volt a szoba, de az étel nem volt jó. Ha hazaérek, még ma írok,
        hogy ezt már nem kérem, és azt is, hogy pedig minden drága.""",
    "Romanian": """
        Pachetul a venit cu două zile mai târziu și nimeni nu știa unde este. Am
        această lampă de o lună, dar nu este prea tare. Sora mea a fost
        mulțumită, dar mâncarea nu a fost bună. După ce ajung acasă, scriu din
        nou, pentru că sunt lucruri care nu pot fi lăsate până mâine.""",
    "Turkish": """
        Paket iki gün geç geldi ve kimse nerede olduğunu bilmiyordu. Bu lamba
        bir aydır var ama çok parlak değil. Ablam oda için memnun oldu, ama
        yemek iyi değil. Eve gelince daha sonra yazacağım, çünkü her şey bu
        kadar pahalı olarak satılmaz, ne diye ben bekleyeyim?""",
    "Indonesian or Malay": """
        Paket itu datang terlambat dua hari dan tidak ada yang tahu di mana.
        Saya sudah punya lampu ini satu bulan, tetapi tidak terang. Kakak saya
        senang dengan kamar itu, bukan makanannya. Kami akan menulis untuk toko
        karena mereka tidak bisa menjawab, dan ini adalah masalah juga.""",
    "Vietnamese": """
        Gói hàng đến muộn hai ngày và không có ai biết nó ở đâu. Tôi đã có cái
        đèn này một tháng, nhưng nó không sáng. Chị của tôi rất thích phòng,
        nhưng không thích món ăn. Khi về nhà tôi cũng sẽ viết cho cửa hàng, để
        những người khác được biết.""",
    "Catalan": """
        El paquet va arribar amb dos dies de retard i ningú sabia on era. Aquest
        llum és molt bonic, però no és més fort que els altres. La meva germana
        està contenta amb una habitació, però no del menjar. Quan arribi a casa
        també escriuré a la botiga, perquè tot és dels seus amics.""",
}
